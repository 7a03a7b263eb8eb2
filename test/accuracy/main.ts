import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import {
  accuracyPage, figuresText, measureAll, peerFiguresText, readFigures, readPeerFigures,
  readServerFigures, serverFiguresText, worseFigures, type ServerFigures,
} from './accuracy.ts'
import type { AccuracyRow } from './row.ts'
import { measureMailboxes, type MailboxFigures } from './servers/mailboxes.ts'
import { askPeer, judgeProduct, misjudged, peerName } from './servers/peers.ts'

const USAGE = `npm run accuracy [-- --save] [--cases] [--servers] [--peers]

Measures how true the verdicts are, by suites of others, and prints a table. It compares with the
figures in test/accuracy/figures.json, and fails if one has become worse.

  --servers  also asks mail servers for mailboxes, which are downloaded once (Linux, as root);
             their figures are in test/accuracy/figures-servers.json
  --peers    with --servers, also asks check-if-email-exists for the same mailboxes; it is built
             once with cargo; its figures are in test/accuracy/figures-peers.json
  --save     writes the measured figures, and deploy/docs/accuracy.md
  --cases    also prints cases that are not right
  --help     prints this text`

const FIGURES = new URL('figures.json', import.meta.url)
const SERVER_FIGURES = new URL('figures-servers.json', import.meta.url)
const PEER_FIGURES = new URL('figures-peers.json', import.meta.url)
const PAGE = new URL('../../deploy/docs/accuracy.md', import.meta.url)

const { values } = parseArgs({
  options: {
    servers: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
    save: { type: 'boolean', default: false },
    cases: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) console.log(USAGE)
else await run()

async function run (): Promise<void> {
  const rows = await measureAll()
  const saved = readServerFigures()
  const peer = values.peers ? await askPeer(console.error) : undefined
  const asksServers = values.servers || values.peers
  const measured = asksServers ? await measureMailboxes(console.error) : undefined
  const servers = measured === undefined ? saved : savedForm(measured)
  const peers = measured === undefined || peer === undefined
    ? readPeerFigures()
    : { 'smtp-probe': judgeProduct(measured.statuses), [peerName()]: judgeProduct(peer) }
  const page = accuracyPage(rows, { servers, peers })
  console.log(page)
  if (values.cases) {
    printCases([...rows, ...measured?.rows ?? []])
    for (const text of peer === undefined ? [] : misjudged(peer)) {
      console.log(`${peerName()}: ${text}`)
    }
  }
  if (values.save) {
    writeFileSync(FIGURES, figuresText(rows))
    if (measured !== undefined) writeFileSync(SERVER_FIGURES, serverFiguresText(measured))
    if (peer !== undefined) writeFileSync(PEER_FIGURES, peerFiguresText(peers))
    writeFileSync(PAGE, page)
    return
  }
  const worse = worseFigures(readFigures(), rows)
    .concat(measured === undefined ? [] : worseFigures(saved.parts, measured.rows))
  for (const text of worse) console.error(text)
  if (worse.length === 0) return
  console.error(`If the new figures are meant, save them: npm run accuracy -- --save${
    asksServers ? ' --servers' : ''}`)
  process.exitCode = 1
}

function savedForm (measured: MailboxFigures): ServerFigures {
  return JSON.parse(serverFiguresText(measured)) as ServerFigures
}

function printCases (rows: readonly AccuracyRow[]): void {
  for (const { suite, part, cases } of rows) {
    for (const text of cases) console.log(`${suite}, ${part}: ${text}`)
  }
}
