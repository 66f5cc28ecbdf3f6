// Asks the site's own search worker, as the browser does: node search_worker.js SITE QUESTION...
// Prints one JSON document: for each question the pages in the order in which the site shows them.
const fs = require("fs"), path = require("path"), vm = require("vm");

const [site, ...questions] = process.argv.slice(2);
const folder = path.join(site, "assets/javascripts/workers");
const program = fs.readdirSync(folder).find((name) => /^search\..*\.js$/.test(name));
let answered, listener;
const scope = {
  console,
  RegExp,
  addEventListener: (_, heard) => { listener = heard; },
  postMessage: (message) => answered(message.data),
};
scope.self = scope;
vm.runInNewContext(fs.readFileSync(path.join(folder, program), "utf8"), scope);
const ask = (data) => new Promise((resolve) => { answered = resolve; listener({data}); });

(async () => {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));
  await ask({type: 0, data: {...index, options: {suggest: true}}});
  const found = {};
  for (const question of questions) {
    const {items} = await ask({type: 2, data: question});
    found[question] = items.map((sections) => sections.find((one) => !one.parent).location);
  }
  console.log(JSON.stringify(found));
})();
