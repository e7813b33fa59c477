import js from "@eslint/js";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  { ignores: ["node_modules/"] },
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  { languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } } },
  {
    rules: {
      "max-len": ["error", { code: 120, tabWidth: 4, ignoreUrls: true }],
      "no-undef": "off", // the compiler checks it
      // A number in a transcript or a test title is what it looks like.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // 2026-07-28 deprecates logging, and keeps it working: that it does is what we test.
      "@typescript-eslint/no-deprecated": "off",
    },
  },
);
