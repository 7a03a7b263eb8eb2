import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { publicKeyText } from '../../services/webhooks/secrets.ts'
import { signatureHeaders } from '../../services/webhooks/event.ts'
import { newFolder } from '../support/folder.ts'
import { blocksOf } from '../support/guides/guide.ts'
import { root } from '../support/sources.ts'

const PAGE = 'deploy/docs/webhooks.md'
const blocks = blocksOf(PAGE, readFileSync(join(root, PAGE), 'utf8'))
const codeIn = (language: string) =>
  blocks.find(block => block.language === language)?.content ?? ''
const folder = newFolder('webhook-receivers-')

const signingKeys = [1, 2].map(byte => `whsk_${Buffer.alloc(32, byte).toString('base64')}`)
const [current = '', former = ''] = signingKeys.map(publicKeyText)
const stranger = publicKeyText(`whsk_${Buffer.alloc(32, 3).toString('base64')}`)
const secrets = [`whsec_${Buffer.alloc(32, 4).toString('base64')}`]
const event = { id: 'evt_1', timestamp: Math.floor(Date.now() / 1_000), body: '{"é":1}' }
const signed = (more: Partial<typeof event> = {}) =>
  ({ ...signatureHeaders({ ...event, ...more }, { secrets, signingKeys }) })

/** What arrives, the keys of the receiver, and whether it is genuine. */
const CASES = [
  [signed(), event.body, [current], true],
  [signed(), event.body, [stranger, former], true],
  [signed(), event.body, [stranger], false],
  [signed(), event.body, [], false],
  [signed(), '{"é":2}', [current], false],
  [{ ...signed(), 'webhook-id': 'evt_2' }, event.body, [current], false],
  [signed({ timestamp: event.timestamp - 400 }), event.body, [current], false],
  [signatureHeaders(event, { secrets, signingKeys: [] }), event.body, [current], false],
  [{}, event.body, [current], false],
] as const
const input = JSON.stringify(CASES.map(([headers, body, keys]) => ({ headers, body, keys })))
const expected = CASES.map(([, , , isGenuine]) => isGenuine)

function answers (file: string, code: string, command: readonly [string, ...string[]]) {
  writeFileSync(join(folder, file), code)
  const [program, ...args] = command
  const out = execFileSync(program, [...args, join(folder, file)], { input, encoding: 'utf8' })
  return JSON.parse(out) as unknown
}

const has = (program: string, ...args: readonly string[]) => spawnSync(program, args).status === 0

describe('the receiver with a public key in the documentation', () => {
  it('separates genuine events from others in Node', () => {
    const code = `${codeIn('js')}
import { readFileSync } from 'node:fs'
const cases = JSON.parse(readFileSync(0, 'utf8'))
console.log(JSON.stringify(cases.map(({ headers, body, keys }) =>
  isGenuine(headers, Buffer.from(body), keys))))`
    expect(answers('receiver.mjs', code, [process.execPath])).toEqual(expected)
  })

  it.skipIf(!has('python3', '-c', 'import cryptography'))(
    'separates genuine events from others in Python', () => {
      const code = `${codeIn('python')}

import json
import sys
print(json.dumps([is_genuine(one["headers"], one["body"].encode(), one["keys"])
                  for one in json.load(sys.stdin)]))`
      expect(answers('receiver.py', code, ['python3'])).toEqual(expected)
    })

  it.skipIf(!has('go', 'version'))('separates genuine events from others in Go', () => {
    const main = readFileSync(join(import.meta.dirname, 'webhook-receiver.go'), 'utf8')
    const code = `${main}\n${codeIn('go')}`
    expect(answers('receiver.go', code, ['go', 'run'])).toEqual(expected)
  })
})
