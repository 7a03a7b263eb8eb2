import type { Admin } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import { migrations, selectPending } from '../../../deploy/provision/migrations.ts'
import { alignAccess } from '../../../deploy/provision/access.ts'
import { stageRules } from '../../../services/runtime/kafka/admin.ts'

describe('migrations', () => {
  it('are numbered from 1 and hold one statement or more each', () => {
    const all = migrations()
    expect(all.map(({ number }) => number)).toEqual(all.map((_, index) => index + 1))
    expect(all.every(({ statements }) => statements.length > 0)).toBe(true)
    const texts = all.flatMap(({ statements }) => statements.map(withoutComments))
    expect(texts.filter(text => !/^(CREATE|ALTER) /.test(text) || /;$/m.test(text))).toEqual([])
  })

  it('are applied once, and never after they were changed', () => {
    const known = migrations()
    const applied = known.map(({ number, name, digest }) => ({ number, name, digest }))
    expect(selectPending(known, [], '1.0.0')).toEqual(known)
    expect(selectPending(known, applied.slice(0, 2), '1.0.0')).toEqual(known.slice(2))
    expect(selectPending(known, applied, '1.0.0')).toEqual([])
    expect(() => selectPending(known, [{ ...applied[0]!, digest: 'other' }], '1.0.0'))
      .toThrow('was changed after')
  })

  it('of newer releases stay, unless they removed what this release uses', () => {
    const known = migrations()
    const newer = (name: string) => [{ number: known.length + 1, name, digest: 'newer' }]
    expect(selectPending(known, newer('0099_added.sql'), '1.9.0')).toEqual(known)
    const removed = newer('0099_reasons_unused_since_1.10.0.sql')
    expect(selectPending(known, removed, '1.10.0')).toEqual(known)
    expect(() => selectPending(known, removed, '1.9.0'))
      .toThrow('removed what release 1.9.0 uses: deploy release 1.10.0 or newer')
  })

  it('only add, unless their name says since when what they remove is unused', () => {
    const removing = migrations().filter(({ name }) => !name.includes('_unused_since_'))
      .flatMap(({ name, statements }) => {
        const created = statements.flatMap(text => createdTable(text) ?? [])
        return statements.filter(text => !onlyAdds(text, created)).map(text => `${name}: ${text}`)
      })
    expect(removing).toEqual([])
  })

  it.each([
    ['-- Why.\nALTER TABLE t\nADD COLUMN IF NOT EXISTS a Int8, ADD INDEX IF NOT EXISTS i a', true],
    ['CREATE TABLE IF NOT EXISTS a (b String) ENGINE = MergeTree ORDER BY b', true],
    ['CREATE TABLE a (b String) ENGINE = MergeTree ORDER BY b', false],
    ['ALTER TABLE jobs MODIFY SETTING merge_selector_base = 30', true],
    ['ALTER TABLE jobs MODIFY SETTING index_granularity = 30', false],
    ['DROP TABLE IF EXISTS jobs', false],
    ['ALTER TABLE jobs ADD COLUMN IF NOT EXISTS a String, DROP COLUMN b', false],
    ['ALTER TABLE jobs MODIFY COLUMN a UInt8', false],
    ['ALTER TABLE jobs ADD CONSTRAINT IF NOT EXISTS c CHECK a > 0', false],
    ['CREATE MATERIALIZED VIEW IF NOT EXISTS v TO jobs AS\nSELECT b FROM new WHERE b > 0', true],
    ['CREATE MATERIALIZED VIEW IF NOT EXISTS v TO new AS SELECT b FROM jobs', false],
  ])('that say %j only add: %s', (text, wanted) => {
    expect(onlyAdds(text, ['new'])).toBe(wanted)
  })
})

/** Whether a statement leaves what is there as it is, however often it is repeated. */
const withoutComments = (statement: string) => statement.replace(/^\s*--.*$/gm, '').trim()

function createdTable (statement: string): string | undefined {
  return /^CREATE TABLE IF NOT EXISTS (\w+)/.exec(withoutComments(statement))?.[1]
}

/** A view on an existing table would change the inserts of the previous release. */
function onlyAdds (statement: string, created: readonly string[]): boolean {
  const text = withoutComments(statement)
  if (createdTable(text) !== undefined) return true
  const viewed = /^CREATE MATERIALIZED VIEW IF NOT EXISTS .*\bFROM (\w+)/s.exec(text)?.[1]
  if (viewed !== undefined) return created.includes(viewed)
  const actions = /^ALTER TABLE \w+\s+(.*)$/s.exec(text)?.[1]?.split(/,(?![^(]*\))/) ?? ['']
  // How parts are merged is no matter of a release.
  return actions.every(action =>
    /^\s*(ADD (COLUMN|INDEX) IF NOT EXISTS |MODIFY SETTING merge_)/.test(action))
}

it('rules of access are created before what is beyond them is removed', async () => {
  const [done, output]: [string[], string[]] = [[], []]
  const acl = { principal: 'User:verify', host: '*', operation: 4, permissionType: 3 }
  const admin = {
    createAcls: async ({ acl: rules }: { acl: unknown[] }) => {
      done.push(`created ${rules.length}`)
    },
    describeAcls: async () => ({
      resources: [
        { resourceType: 2, resourceName: 'wallet.journal', resourcePatternType: 3, acls: [acl] },
      ],
    }),
    deleteAcls: async ({ filters }: { filters: { resourceName: string }[] }) => {
      done.push(`removed ${filters.map(({ resourceName }) => resourceName).join()}`)
    },
  } as unknown as Admin
  const created = `created ${stageRules().length}`
  // As before an upgrade: pods of the release before may need what is beyond them.
  await alignAccess(admin, 'manage', line => output.push(line), '', true)
  expect(done.splice(0)).toEqual([created])
  await alignAccess(admin, 'manage', line => output.push(line))
  expect(done).toEqual([created, 'removed wallet.journal'])
  expect(output).toEqual([
    `ACLs: ${stageRules().length} in place for the stages, others are left as they are`,
    `ACLs: ${stageRules().length} in place for the stages, 1 others deleted`,
  ])
})
