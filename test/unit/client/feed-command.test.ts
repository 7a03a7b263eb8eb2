import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { textOfPartnerKey } from '../../../schemas/feeds/seal.ts'
import { createFeedProgram, type Terminal } from '../../../services/client/feed-command.ts'

let folder: string
beforeEach(() => { folder = mkdtempSync(`${tmpdir()}/feed-`) })
afterEach(() => rmSync(folder, { recursive: true }))

/** Runs `feed send` on a file; no broker listens, so it fails once it connects. */
async function send (
  content: string, words: readonly string[] = [], terminal: Partial<Terminal> = {}
) {
  const said: string[] = []
  const file = `${folder}/contacts.csv`
  writeFileSync(file, content)
  const env = {
    FEED_PARTNER: 'acme',
    FEED_KEY: textOfPartnerKey(Buffer.alloc(32)),
    KAFKA_BROKERS: '127.0.0.1:1',
    SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1',
  }
  const program = createFeedProgram(env, {
    say: line => { said.push(line) }, confirm: undefined, readPrice: async () => 2_000, ...terminal,
  })
  const all = ['send', file, '--service', 'phone-validation', '--data', folder, ...words]
  const error = await program.parseAsync(all, { from: 'user' }).then(() => '', String)
  return { said, error }
}

const FILE = 'phone,customer\n+12127365000,a\n+12127365001,b\n'

describe('feed send', () => {
  it('shows rows, columns and price, and sends nothing without a confirmation', async () => {
    const { said, error } = await send(FILE, ['--reference', 'customer'])
    expect(said).toEqual([
      '2 contacts from column phone, references from column customer.',
      'Price of phone-validation: $0.002 a contact by the price list, at most $0.004 for all.',
    ])
    expect(error).toContain('needs confirmation, and there is no terminal to ask at. Add --yes')
  })

  it('asks at a terminal', async () => {
    const asked: string[] = []
    const { error } = await send(FILE, [], {
      confirm: async question => {
        asked.push(question)
        return false
      },
    })
    expect(asked).toEqual(['Sending 2 contacts for $0.004? [y/N] '])
    expect(error).toContain('You declined. Nothing was sent.')
  })

  it('names the price of the contract without a price list', async () => {
    const { said, error } = await send(FILE, [], { readPrice: async () => undefined })
    expect(said).toEqual([
      '2 contacts from column phone, the rows are numbered.',
      'Price of phone-validation: as agreed with the partner; no price list is available here.',
    ])
    expect(error).toContain('for the price of its contract needs confirmation')
  })

  it('checks all rows before anything is sent', async () => {
    const words = ['--reference', 'customer', '--yes']
    expect((await send(`${FILE}+12127365002,\n`, words)).error)
      .toContain('Row 3 of the file has an empty reference')
    expect((await send('phone,customer\n', words)).error).toContain('has no contacts')
    expect((await send(FILE, ['--reference', 'id', '--yes'])).error).toContain('has no field id')
  })
})
