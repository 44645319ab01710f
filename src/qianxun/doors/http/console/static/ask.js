// The answer as it comes. Its text is shown as text; what replaces it at the end was made, and escaped, by the service.
import { token } from "./token.js";

const form = document.querySelector("form[data-ask]");

function turn(kind, text) {
  const shown = document.createElement("div");
  shown.className = `turn ${kind}`;
  shown.dir = "auto";
  shown.textContent = text;
  document.getElementById("turns").append(shown);
  return shown;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    for (let end; (end = waiting.indexOf("\n\n")) >= 0; waiting = waiting.slice(end + 2)) {
      const lines = waiting.slice(0, end).split("\n");
      const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

function failed(shown, message, again) {
  const notice = document.createElement("div");
  const button = document.createElement("button");
  notice.className = "notice bad";
  notice.setAttribute("role", "alert");
  notice.textContent = message;
  button.type = "button";
  button.textContent = form.dataset.again;
  button.addEventListener("click", () => { form.elements.q.value = again; form.requestSubmit(); });
  shown.append(notice, button);
}

async function read(response, shown, text, status) {
  for await (const [name, data] of events(response.body)) {
    if (name === "sources") status.textContent = `${data.count} ${form.dataset.found}`;
    if (name === "reset") text.textContent = "";
    if (name === "token") {
      status.remove();
      text.textContent += data.text;
    }
    if (name === "failed") return data.message;
    if (name === "done") {
      shown.innerHTML = data.html;
      globalThis.htmx?.process(shown);
      form.elements.history.value = data.history;
      form.querySelector("[data-fresh]")?.classList.remove("hidden");
      return "";
    }
  }
  return form.dataset.cut;
}

async function ask() {
  const stop = form.querySelector("[data-stop]");
  const submit = form.querySelector("button.primary");
  const body = new FormData(form);
  const question = form.elements.q.value;
  turn("mine", question);
  const shown = turn("theirs answer", "");
  const text = document.createElement("div");
  const status = document.createElement("p");
  text.className = "prose streaming";
  text.setAttribute("aria-live", "polite");
  status.className = "muted";
  status.textContent = form.dataset.thinking;
  shown.append(status, text);
  shown.scrollIntoView({ block: "nearest" });
  form.elements.q.value = "";
  const control = new AbortController();
  stop.onclick = () => control.abort();
  stop.classList.remove("hidden");
  submit.disabled = true;
  let message;
  try {
    const headers = { "X-Form-Token": token(), Accept: "application/json" };
    const response = await fetch(form.dataset.ask, { method: "POST", body, headers, signal: control.signal });
    message = response.ok ? await read(response, shown, text, status) : (await response.json()).msg;
  } catch {
    message = form.dataset.cut;
  }
  status.remove();
  if (message) failed(shown, message, question);
  stop.classList.add("hidden");
  submit.disabled = false;
  shown.scrollIntoView({ block: "nearest" });
  form.elements.q.focus();
}

if (form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  form.elements.q.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
}
