import { expect, test } from "vitest";

import { Template } from "../src/template.js";

test.each<[string, string, Record<string, string> | undefined]>([
  ["file:///{name}", "file:///a", { name: "a" }],
  ["file:///{name}", "file:///a/b", undefined],
  ["file:///{name}", "file:///", undefined],
  ["file:///{name}", "FILE:///a", undefined],
  ["file:///{+path}", "file:///a/b%20c", { path: "a/b c" }],
  ["file:///{+path}", "file:///a/../b", undefined],
  ["file:///{+path}", "file:///a/%2e%2e/b", undefined],
  ["file:///{+path}", "file:///a%00b", undefined],
  ["file:///{+path}", "file:///%zz", undefined],
  ["db://{table}/{id}.json", "db://users/7.json", { table: "users", id: "7" }],
  ["db://{table}/{id}.json", "db://users/7xjson", undefined],
  ["w://x{?city,days}", "w://x", {}],
  ["w://x{?city,days}", "w://x?days=3&odd=1", { days: "3" }],
  ["w://x{?city,days}", "w://x?city=R%C3%B4me", { city: "Rôme" }],
  ["w://{a}{?b}", "w://1?b=2", { a: "1", b: "2" }],
  ["file:///{+path}{?raw}", "file:///a/b?raw=1", { path: "a/b", raw: "1" }],
])("%s of %s", (template, uri, values) => {
  expect(new Template(template).match(uri)).toEqual(values);
});

test.each([
  ["x://{a}{b}", "nothing between"],
  ["x://{?a}/b", "has to be at the end"],
  ["x://{a}/{a}", "there twice"],
  ["x://{/a}", "cannot be matched"],
  ["x://{a", "no partner"],
])("%s cannot be matched", (template, why) => {
  expect(() => new Template(template)).toThrow(why);
});

// The client says the URI, and one that fits almost must not stop everybody else: a regular expression takes minutes.
test("a hostile URI is looked at once", () => {
  const began = performance.now();
  for (const [template, c] of [["x://{+a}/{+b}/{+c}/{+d}!", "/"], ["x://{a}-{b}-{c}-{d}!", "-"], ["x://{+a}?{+b}?{+c}{?d}", "?"]] as const) {
    expect(new Template(template).match(`x://${c.repeat(4000)}`)).toBeUndefined();
  }
  expect(performance.now() - began).toBeLessThan(1000);
});

test("values are those of a regular expression, whatever the template", () => {
  const parts = ["a", "/", "-", "?", "#", "b/"];
  let seed = 1;
  const pick = <T>(from: readonly T[]): T => from[(seed = (seed * 16807) % 2147483647) % from.length] as T;
  for (let round = 0; round < 20_000; round++) {
    const count = 1 + (round % 3);
    const query = pick([true, false]);
    let template = "x:";
    let pattern = "x:";
    for (let i = 0; i < count; i++) {
      const literal = pick(parts);
      const reserved = pick([true, false]);
      template += `${literal}{${reserved ? "+" : ""}v${String(i)}}`;
      pattern += `${literal.replace("?", "\\?")}(?<v${String(i)}>${reserved ? (query ? "[^?#]+" : ".+") : "[^/?#]+"})`;
    }
    if (query) template += "{?q}";
    const uri = `x:${Array.from({ length: pick([2, 5, 9]) }, () => pick(parts)).join("")}${pick(["", "?q=1"])}`;
    const found = new RegExp(`^${pattern}${query ? "(?:\\?(?<query>[^#]*))?" : ""}$`).exec(uri);
    const { query: asked, ...values } = found?.groups ?? {};
    const q = new URLSearchParams(asked ?? "").getAll("q").at(-1);
    expect(new Template(template).match(uri), `${template} of ${uri}`).toEqual(found ? { ...values, ...(q === undefined ? {} : { q }) } : undefined);
  }
});
