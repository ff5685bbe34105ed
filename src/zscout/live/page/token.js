// The page that asks for the token; the hash of a link, which holds the set-up, is kept.

const form = document.getElementById("token-form");
const field = document.getElementById("token");

/** Accepts the token alone or the whole link. */
function tokenIn(text) {
  const found = text.match(/[?&]token=([^&#\s]+)/);
  return found ? decodeURIComponent(found[1]) : text.trim();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const token = tokenIn(field.value);
  if (token) location.href = `/?token=${encodeURIComponent(token)}${location.hash}`;
});

// A token in the address was wrong: say so, and remove it from the address.
if (new URLSearchParams(location.search).has("token")) {
  document.getElementById("wrong").textContent = "This token is wrong.";
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "wrong");
  history.replaceState(null, "", `/${location.hash}`);
}
