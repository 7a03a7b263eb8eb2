import neostandard from 'neostandard'
import tseslint from 'typescript-eslint'

// Style comes from neostandard. Rules that need types are in oxlint.json, which takes a fifth of
// their time, and apply to what a changed type means for other files, so they have no cache.
export default [
  { ignores: ['**/node_modules/**', '.local/**', 'schemas/types.ts'] },
  ...neostandard({ ts: true, noJsx: true }),
  {
    files: ['**/*.ts'],
    plugins: { '@typescript-eslint': tseslint.plugin },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      'max-params': ['error', 3],
      'no-console': 'off',
    },
  },
]
