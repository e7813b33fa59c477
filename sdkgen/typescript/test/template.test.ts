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
  ["x://{a,b}", "x://1,2", { a: "1", b: "2" }],
  ["x://{a,b}", "x://1", { a: "1" }],
  ["x://a{/b,c}", "x://a/1/2", { b: "1", c: "2" }],
  ["x://a{/b,c}", "x://a/1", { b: "1" }],
  ["x://a{/b,c}", "x://a", {}],
  ["x://a{/b,c}", "x://a/1/2/3", undefined],
  ["x://a{/b}", "x://a/..", undefined],
  ["x:a{.ext}", "x:a.tar.gz", { ext: "tar.gz" }],
  ["x:a{.b,c}", "x:a.tar.gz", { b: "tar", c: "gz" }],
  ["x:{name}{.ext}", "x:a.gz", { name: "a.gz" }], // As long as it can be.
  ["x:{+a,b}/c", "x:1/2,3/c", { a: "1/2", b: "3" }],
  ["x:{+path}{#part}", "x:a/b?c#d/e", { path: "a/b?c", part: "d/e" }],
  ["x:{a}{#part}", "x:1", { a: "1" }],
  ["x:p{;a,b}/q", "x:p;b=2;c=3;a=%2F/q", { b: "2", a: "/" }],
  ["x:p{;a,b}/q", "x:p/q", {}],
  ["x:p{;a}", "x:p;a=%zz", undefined],
  ["x:p?f=1{&a,b}", "x:p?f=1&b=2", { b: "2" }],
  ["x:p?f=1{&a,b}", "x:p?f=1", {}],
  ["x:p{?a}{&b}", "x:p?b=2&a=1", { b: "2", a: "1" }],
  ["x:p{?a}{#b}", "x:p?a=1#2", { a: "1", b: "2" }],
  ["x:p{?a}", "x:p?", {}],
])("%s of %s", (template, uri, values) => {
  expect(new Template(template).match(uri)).toEqual(values);
});

test.each([
  ["x://{a}{b}", "must be separated"],
  ["x://{a}/{a}", "duplicate variable"],
  ["x://{a*}", "cannot be matched"],
  ["x://{a:3}", "cannot be matched"],
  ["x://{a", "unmatched brace"],
])("%s cannot be matched", (template, why) => {
  expect(() => new Template(template)).toThrow(why);
});

// Clients choose URIs. One that almost matches must not block the process: a regular expression would take minutes.
test("a hostile URI is matched in linear time", () => {
  const start = performance.now();
  for (
    const [template, c] of [
      ["x://{+a}/{+b}/{+c}/{+d}!", "/"],
      ["x://{a}-{b}-{c}-{d}!", "-"],
      ["x://{+a}?{+b}?{+c}{?d}", "?"],
      ["x:{/a,b,c}{/d,e,f}!", "/"],
      ["x:{;a}{;b}{;c}!", ";"],
    ] as const
  ) {
    expect(new Template(template).match(`${template.startsWith("x://") ? "x://" : "x:"}${c.repeat(4000)}`))
      .toBeUndefined();
  }
  expect(performance.now() - start).toBeLessThan(20_000);
});

test("values are the same as those of a regular expression", () => {
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
    expect(new Template(template).match(uri), `${template} of ${uri}`).toEqual(
      found ? { ...values, ...(q === undefined ? {} : { q }) } : undefined,
    );
  }
});
