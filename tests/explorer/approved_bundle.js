const module_b_js = await (async () => {
const base = 21;
class Box { n = 5; }
const inner = "b";


return { base, Box, name: inner };
})();
const module_late_js = await (async () => {
const hidden = 3;
async function view() { return await hidden; }
function* count() { yield hidden; }
let last = 1;

return { view, count, last };
})();
const module_a_js = await (async () => {
const {base} = module_b_js;
const one = base;
const hidden = 2;
function twice(x) { return hidden * x; }

return { one, twice };
})();
const module_app_js = await (async () => {
const {twice, one: first} = module_a_js;
const b = module_b_js;
console.log(twice(first), b.name, new b.Box().n);
const late = await Promise.resolve(module_late_js);
console.log(late.view());

return {  };
})();