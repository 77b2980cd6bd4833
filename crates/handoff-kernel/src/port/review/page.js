"use strict";
const hunks = JSON.parse(document.getElementById("hunks").textContent);
const cards = [...document.querySelectorAll(".card")];
// The page's own decisions survive a reload; another page of the same name has other hunks.
const key = "handoff-review:" + hunks.map(h => h.file + h.line + h.hunk).join("").length + ":" + location.pathname;
let saved = true;

const returns = hunk => hunk.was.length > 0 && hunk.was.every(line => line.endsWith("\r"));
const show = (hunk, lines) => lines.map(line => returns(hunk) ? line.replace(/\r$/, "") : line).join("\n");
const parts = card => ({ text: card.querySelector("textarea"), radios: [...card.querySelectorAll("input[type=radio]")] });
const chosen = card => parts(card).radios.find(radio => radio.checked)?.value;

function decision(card, index) {
  const hunk = hunks[index], choice = chosen(card);
  if (!choice) return null;
  let becomes = choice == "accept" ? hunk.becomes : [];
  if (choice == "edit") {
    const text = parts(card).text.value;
    becomes = text == "" ? [] : text.split("\n").map(line => returns(hunk) ? line + "\r" : line);
  }
  return { subject: hunk.subject, file: hunk.file, hunk: hunk.hunk, choice, line: hunk.line, was: hunk.was, becomes };
}

const decisions = () => cards.map(decision).filter(one => one);

function changed() {
  cards.forEach(card => {
    card.classList.toggle("decided", !!chosen(card));
    parts(card).text.hidden = chosen(card) != "edit";
  });
  const count = decisions().length;
  document.getElementById("count").textContent = count + " of " + cards.length + " decided" + (saved ? "" : ", not saved");
  document.getElementById("save").disabled = count == 0;
}

function keep() {
  saved = false;
  try {
    localStorage.setItem(key, JSON.stringify(cards.map(card => [chosen(card), parts(card).text.value])));
  } catch { /* a browser may forbid it; the file is what counts */ }
  changed();
}

cards.forEach((card, index) => {
  const hunk = hunks[index], { text, radios } = parts(card);
  text.value = show(hunk, hunk.becomes || hunk.was);
  radios.forEach(radio => radio.addEventListener("change", keep));
  text.addEventListener("input", keep);
  card.querySelector(".undo").addEventListener("click", () => { radios.forEach(radio => { radio.checked = false; }); keep(); });
});

try {
  JSON.parse(localStorage.getItem(key) || "[]").forEach(([choice, value], index) => {
    const { text, radios } = parts(cards[index]);
    text.value = value;
    radios.forEach(radio => { radio.checked = radio.value == choice && !radio.disabled; });
  });
} catch { /* nothing was kept */ }

document.getElementById("open").addEventListener("change", event => document.body.classList.toggle("only", event.target.checked));
document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify({ decisions: decisions() }, null, 1)], { type: "application/json" }));
  link.download = "decisions.json";
  link.click();
  URL.revokeObjectURL(link.href);
  saved = true;
  changed();
});
addEventListener("beforeunload", event => { if (!saved) event.preventDefault(); });
changed();
