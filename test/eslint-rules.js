import { builtinRules } from 'eslint/use-at-your-own-risk'

/** The rules of ESLint that oxlint does not have, as a plugin for `oxlint-style.json`. */
export default {
  meta: { name: 'eslint-core' },
  rules: Object.fromEntries(['camelcase', 'no-undef-init']
    .map(name => [name, builtinRules.get(name)])),
}
