// Shows a sentence at once; screen readers read it at most every two seconds.

const PAUSE_MS = 2000;
const heard = new WeakMap(); // element → {time, timer}

export function speak(element, text) {
  if (element.textContent === text) return;
  const last = heard.get(element) ?? { time: -PAUSE_MS, timer: null };
  heard.set(element, last);
  const since = performance.now() - last.time;
  clearTimeout(last.timer);
  if (since >= PAUSE_MS) return aloud(element, text, last);
  // A change while the live region is off is not read; the last sentence is written again when it is on.
  element.setAttribute("aria-live", "off");
  element.textContent = text;
  last.timer = setTimeout(() => aloud(element, element.textContent, last), PAUSE_MS - since);
}

function aloud(element, text, last) {
  last.time = performance.now();
  element.setAttribute("aria-live", "polite");
  element.textContent = text;
}
