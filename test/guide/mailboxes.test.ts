import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { verifyConfig } from '../../services/verify/config.ts'
import { describedEgresses } from '../../services/verify/mailboxes/egress.ts'
import { ownerPolicies } from '../support/mail/owner-policies.ts'
import { STAGE_ENVIRONMENT } from '../support/stacks/stage-environment.ts'

const guide = readFileSync(new URL('../../deploy/docs/mailboxes.md', import.meta.url), 'utf8')

it('the egresses of the guide are a valid setting, of owners that exist', () => {
  const [, example = ''] = /```json\n([^]*?)```/.exec(guide) ?? []
  const config = loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, SMTP_EGRESS: example })
  const all = describedEgresses(config)
  expect(all.map(({ name }) => name)).toEqual(['fra-1', 'fra-2', 'nyc-1', 'sin-1'])
  const owners = ownerPolicies().map(({ owner }) => owner)
  const named = all.flatMap(egress => egress.owners ?? [])
  expect(named.filter(owner => !owners.includes(owner))).toEqual([])
})

it('the limits of owners in the guide are those of the policies', () => {
  const rows = [...guide.matchAll(/^(\| `[a-z][\w.-]*` \| \d+ .*?) \|[^|]*\|$/gm)]
    .map(([, cells = '']) => cells)
  expect(rows).toEqual(ownerPolicies().map(policy => {
    const { first, least, most } = policy.recipientsAMinute
    return `| \`${policy.owner}\` | ${policy.sessions} | ${policy.sessionsAMinute} | ` +
      `${first}, ${least}, ${most} | ${policy.recipientsASession}`
  }))
})
