import { describe, expect, it } from 'vitest'
import { createAccessCopy } from '../../../../services/accounts/access-log/copy.ts'
import { accessEntry } from '../../../support/access.ts'
import { recordMacOf } from '../../../support/keys/signed.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'

const entries = [1, 2, 3].map(seq => accessEntry({ seq }))

function copyOn (...answers: readonly (readonly object[])[]) {
  const double = createClickhouseDouble(...answers)
  return { ...double, copy: createAccessCopy(double.clickhouse, recordMacOf()) }
}

/** Rows as they are stored, as ClickHouse gives them back. */
async function stored (some = entries) {
  const { copy, inserted } = copyOn()
  await copy.append(some)
  return inserted.map(({ at, ...row }): Record<string, unknown> =>
    ({ ...row, at: String(Date.parse(String(at))) }))
}

describe('the copy of the access log', () => {
  it('returns each entry once, and the numbers of rows that no service signed', async () => {
    const [one, two, three] = await stored()
    const changed = [{ ...two, target: 'job_9' }, { ...two, seq: 7 }, { ...two, tenant: 'org_9' }]
    const { copy, queries } = copyOn([one!, one!, ...changed, three!])
    expect(await copy.range(1, 3)).toEqual({
      entries: [entries[0], entries[2]], forged: [2, 7, 2],
    })
    expect(queries[0]?.query_params).toEqual({ from: 1, to: 3 })
  })

  it('reports a row in which any column was changed', async () => {
    const [row] = await stored()
    const columns = Object.keys(row!).filter(name => name !== 'mac')
    const changed = columns.map(name =>
      ({ ...row, [name]: name === 'seq' ? 1_000 : `${row![name]}1` }))
    const { entries: found, forged } = await copyOn(changed).copy.range(1, 1_000)
    expect([columns.length, found, forged.length]).toEqual([11, [], 11])
  })

  it('is read in pages that skip missing numbers', async () => {
    const rows = await stored()
    const { copy, queries } = copyOn([{ number: '2' }], rows.slice(1), [{ number: '9000' }], [], [])
    const pages: number[] = []
    for await (const page of copy.pages(1)) pages.push(page.entries.length)
    expect(pages).toEqual([2, 0])
    expect(queries.map(({ query_params: parameters }) => parameters)).toEqual([
      { after: 1 }, { from: 2, to: 5_001 }, { after: 5_001 }, { from: 9_000, to: 13_999 },
      { after: 13_999 },
    ])
  })

  it('lists an entry that was sent twice once, and ends at the limit', async () => {
    const again = { ...accessEntry({ seq: 4 }), entryId: entries[2]!.entryId }
    const rows = (await stored([...entries, again])).toReversed()
    const { copy, queries } = copyOn(rows, rows)
    const filter = { organization: 'org_1', action: 'key.created', before: 9 }
    expect((await copy.newest({ ...filter, limit: 2 })).map(({ seq }) => seq)).toEqual([4, 2])
    expect((await copy.newest({ organization: 'org_1', limit: 9 })).map(({ seq }) => seq))
      .toEqual([4, 2, 1])
    expect(queries[0]?.query_params).toEqual({
      tenant: 'org_1', action: 'key.created', actor: '', sinceMs: 0, before: 9,
    })
  })

  it('inserts rows again that were deleted since their first insert', async () => {
    const { copy, tokens } = copyOn()
    await copy.append(entries)
    await copy.append(entries)
    // Of two inserts with the same token ClickHouse drops the later one.
    expect(new Set(tokens).size).toBe(2)
  })
})
