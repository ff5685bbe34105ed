// The lock: a link to a set-up keeps its hash on the way through.

const form = document.getElementById("door");
const field = document.getElementById("token");

/** People paste the whole link as often as the token alone. */
function tokenIn(text) {
  const found = text.match(/[?&]token=([^&#\s]+)/);
  return found ? decodeURIComponent(found[1]) : text.trim();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const token = tokenIn(field.value);
  if (token) location.href = `/?token=${encodeURIComponent(token)}${location.hash}`;
});

// Whoever comes here with a token has a wrong one: say so, and do not keep it in the address.
if (new URLSearchParams(location.search).has("token")) {
  document.getElementById("wrong").textContent = "That token is not right.";
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "wrong");
  history.replaceState(null, "", `/${location.hash}`);
}
