// What every page does with a script: times in the reader's zone, texts to copy, choices that submit at once.
// Pages that need more have a module of their own.

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    const two = (number) => String(number).padStart(2, "0");
    const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
    time.textContent = `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
  }
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // without https there is no clipboard: the text is selected instead
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.dataset.copy));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  if (event.target.matches("[data-check-all]"))
    for (const box of event.target.closest("table").querySelectorAll('tbody input[type="checkbox"]')) box.checked = event.target.checked;
});

// A list that follows the indexer waits while somebody ticks documents in it.
document.addEventListener("htmx:beforeRequest", (event) => {
  const { target } = event.detail;
  if (target.id === "documents" && target.querySelector("tbody input:checked, details[open]")) event.preventDefault();
});

document.addEventListener("htmx:afterSettle", (event) => localTimes(event.target));
localTimes(document);
document.documentElement.classList.add("scripted");
