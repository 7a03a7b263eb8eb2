import neostandard from 'neostandard'
import tseslint from 'typescript-eslint'

// Style comes from neostandard; the type-aware rules catch promises that nobody awaits,
// which in a pipeline means an effect that may not have happened when the offset moves.
export default [
  { ignores: ['**/node_modules/**', '.local/**', 'schemas/types.ts'] },
  ...neostandard({ ts: true }),
  {
    files: ['**/*.ts'],
    languageOptions: {
      parser: tseslint.parser,
      parserOptions: { projectService: true, tsconfigRootDir: `${import.meta.dirname}/..` },
    },
    plugins: { '@typescript-eslint': tseslint.plugin },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: false }],
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      'max-params': ['error', 3],
      'no-console': 'off',
    },
  },
]
