// Joins the texts that client/cleave/report/review.py made for each choice into a schema, and shows who will see what.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const one = (query) => document.querySelector(query);
  const cards = [...document.querySelectorAll(".choice")].map((card, place) => ({
    ...data.columns[place],
    shown: card.querySelector("h3").textContent,
    kinds: card.querySelector("select"),
    person: card.querySelector(".person"),
    doubt: card.querySelector(".unsure"),
    sees: card.querySelector(".sees"),
    becomes: card.querySelector(".becomes"),
  }));
  const [settled, least, share] = ["#settled", "#min-group", "#dominance"].map(one);

  const kindOf = (card) => card.kinds.value || card.kind;
  const isUnsure = (card) => card.unsure && !card.kinds.value;
  const isDoubtful = () => data.unsure && !settled.checked;

  // While nobody has settled it, the best candidate that is not local. Else in the order of the file, or as it was.
  function entity() {
    if (isDoubtful()) {
      const best = data.candidates.map((place) => cards[place]).find((card) => kindOf(card) !== "local");
      return best ? [best] : [];
    }
    const chosen = cards.filter((card) => card.person.checked);
    const before = data.entity.map((place) => cards[place]);
    return chosen.length === before.length && before.every((card) => card.person.checked) ? before : chosen;
  }

  function privacy() {
    const people = entity();
    return [
      people.length ? `entity = [${people.map((card) => card.name).join(", ")}]\n` : "",
      Number(least.value) ? `min_group = ${Number(least.value)}\n` : "",
      share.value ? `dominance = ${share.value}\n` : "",
      people.length && isDoubtful() ? "unsure = true # whom a row is about: settle it, then delete this line\n" : "",
    ].join("");
  }

  function toml() {
    const stated = privacy();
    const columns = cards.map((card) => (card.kinds.value ? card.chosen[card.kinds.value] : card.untouched));
    return [data.head, ...columns, ...(stated ? [`[privacy]\n${stated}`] : [])].join("\n");
  }

  function names(into, list, none) {
    const nodes = list.flatMap((card, place) => {
      const name = document.createElement("bdi");
      name.textContent = card.shown;
      return place ? [", ", name] : [name];
    });
    into.replaceChildren(...(nodes.length ? nodes : [none]));
  }

  function show() {
    const counts = Object.keys(data.kinds).map((kind) => {
      const of = cards.filter((card) => kindOf(card) === kind);
      one(`#party-${kind} .count`).textContent = of.length;
      names(one(`#party-${kind} .names`), of, "");
      return `${of.length} ${kind}`;
    });
    for (const card of cards) {
      [card.sees.textContent, card.becomes.textContent] = data.kinds[kindOf(card)];
      if (card.doubt) card.doubt.hidden = !isUnsure(card);
    }
    const people = entity();
    for (const card of cards) card.person.checked = people.includes(card);
    names(one("#entity"), people, "nobody named");
    one("#counted").textContent = people.length ? "people" : "rows";
    if (settled) one("#doubt .unsure").hidden = !(people.length && isDoubtful());
    share.setCustomValidity(share.value && !people.length ? "No column names whom a row is about." : "");
    const unsure = cards.filter(isUnsure).length;
    const doubt = people.length && isDoubtful() ? ", and whom rows are about" : "";
    one("#status").textContent = `${counts.join(", ")}. ${unsure || doubt ? `Unsure: ${unsure}${doubt}.` : "All settled."}`;
    one("#confirm").disabled = !(unsure || doubt);
    const wrong = [least, share].filter((field) => !field.checkValidity());
    if (wrong.length) one("#status").textContent += ` Correct: ${wrong.map((field) => field.labels[0].textContent.trim()).join(", ")}.`;
    if (one("#text").open) one("#toml").textContent = wrong.length ? "" : toml();
  }

  function confirm() {
    for (const card of cards.filter(isUnsure)) card.kinds.value = card.kind;
    if (settled) settled.checked = true;
    show();
  }

  function download() {
    if (!least.reportValidity() || !share.reportValidity()) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([toml()], { type: "application/toml" }));
    link.download = data.file;
    link.click();
  }

  for (const card of cards) {
    card.kinds.addEventListener("change", show);
    card.person.addEventListener("change", () => {
      if (settled) settled.checked = true; // who chooses has decided
      show();
    });
  }
  for (const field of [settled, least, share]) field?.addEventListener("input", show);
  one("#text").addEventListener("toggle", show);
  one("#confirm").addEventListener("click", confirm);
  one("#download").addEventListener("click", download);
  const bar = one(".bar");
  new ResizeObserver(() => {
    document.documentElement.style.scrollPaddingBottom = `${bar.offsetHeight}px`; // the bar hides no field with the focus
  }).observe(bar);
  show();
})();
