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
