import js from "@eslint/js";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  { ignores: ["node_modules/", "dist/", "src/gen/", "**/*.mjs"] },
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  { languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } } },
  {
    rules: {
      "max-len": ["error", { code: 120, tabWidth: 4, ignoreUrls: true }],
      "no-undef": "off", // the compiler checks it
      // A number in a message is what it looks like.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // Short handlers that only do something.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      // Types that are read from a schema are worth their parameters.
      "@typescript-eslint/no-unnecessary-type-parameters": "off",
      "@typescript-eslint/no-empty-object-type": "off",
      "@typescript-eslint/no-generated-empty-object-type": "off",
    },
  },
);
