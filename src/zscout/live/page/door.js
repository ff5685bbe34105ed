// The lock: a link to a set-up keeps its hash on the way through.

const form = document.getElementById("door");

/** People paste the whole link as often as the token alone. */
function tokenIn(text) {
  const found = text.match(/[?&]token=([^&#\s]+)/);
  return found ? decodeURIComponent(found[1]) : text.trim();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const token = tokenIn(document.getElementById("token").value);
  if (token) location.href = `/?token=${encodeURIComponent(token)}${location.hash}`;
});
