// Files and folders, dropped or chosen: sent one after the other, each with its progress and, where it is refused, the
// reason. The form works without this for one file at a time.
import { token } from "./token.js";

const form = document.querySelector("form[data-upload]");
const text = form?.dataset;

async function filesOf(entry, path) {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    return [{ file, path: path + file.name }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {  // a folder is read some entries at a time
    const entries = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!entries.length) return found;
    for (const inner of entries) found.push(...(await filesOf(inner, `${path}${entry.name}/`)));
  }
}

function listed(name) {
  const item = document.createElement("li");
  const label = document.createElement("bdi");
  const progress = document.createElement("progress");
  const state = document.createElement("span");
  label.textContent = name;
  progress.max = 1;
  progress.value = 0;
  progress.setAttribute("aria-label", name);
  state.className = "state busy";
  state.textContent = text.waiting;
  item.append(label, progress, state);
  form.querySelector("[data-transfers]").append(item);
  return { item, progress, state };
}

function send({ file, path }, shown) {
  return new Promise((done) => {
    const end = (kind, message) => {
      shown.state.className = `state ${kind}`;
      shown.state.textContent = message;
      shown.progress.value = 1;
      done(kind === "done");
    };
    if (file.size > Number(text.limit)) return end("bad", text.large);
    const body = new FormData();
    if (path.includes("/")) body.append("relative_path", path);
    body.append("file", file, file.name);
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("X-Form-Token", token());
    request.setRequestHeader("Accept", "application/json");
    shown.state.textContent = text.sending;
    request.upload.onprogress = (event) => { shown.progress.value = event.loaded / (event.total || 1); };
    request.upload.onload = () => { shown.state.textContent = text.reading; };
    request.onerror = () => end("bad", text.lost);
    request.onload = () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* a page: the status says enough */ }
      const became = answer.outcome === "unchanged" ? text.same : text.done;
      if (request.status < 300) end("done", [became, ...(answer.warnings ?? [])].join("；"));
      else end("bad", answer.msg ?? `${request.status}`);
    };
    request.send(body);
  });
}

let queue = Promise.resolve();
let sent = 0;
let refused = 0;

function add(files) {
  for (const one of files) {
    const shown = listed(one.path);
    queue = queue.then(async () => {
      (await send(one, shown)) ? (sent += 1) : (refused += 1);
      form.dataset.progress = `${sent + refused}`;
    });
  }
  queue = queue.then(() => globalThis.htmx?.trigger("#documents", "refresh"));
}

if (form) {
  const [input, folder] = form.querySelectorAll("input[type=file]");
  input.multiple = true;
  input.required = false;
  folder.webkitdirectory = true;
  for (const chooser of [input, folder])
    chooser.addEventListener("change", () => {
      add([...chooser.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
      chooser.value = "";
    });
  const drop = form.querySelector("[data-drop]");
  for (const kind of ["dragover", "dragleave", "drop"])
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
    });
  drop.addEventListener("drop", async (event) => {
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    for (const entry of entries) add(await filesOf(entry, ""));
  });
}
