import { readFileSync } from 'node:fs'
import { measureEmail } from './email.ts'
import { measureFiles } from './files.ts'
import { measureCells, measureNumbers } from './phones.ts'
import { POLICIES } from './policies.ts'
import { confusionOf, loadReplies, measureReplies, REPLY_SUITES } from './replies.ts'
import type { AccuracyRow } from './row.ts'
import type { MailboxFigures, StatusMatrix } from './servers/mailboxes.ts'
import type { ProductCounts, ProductFigures } from './servers/peers.ts'

/** How many numbers become cells, each in some hundred ways. */
const CELL_NUMBERS = 100

/** Measures everything that needs no network and no server. */
export async function measureAll (): Promise<readonly AccuracyRow[]> {
  return [
    ...await measureNumbers(), ...measureCells(CELL_NUMBERS),
    ...measureEmail(), ...measureReplies(), ...await measureFiles(),
  ]
}

/** Saved figures by `suite: part`. */
export type Figures = Readonly<Record<string, Pick<AccuracyRow, 'total' | 'right' | 'wrong'>>>

const readSaved = (file: string): unknown =>
  JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))

/** The figures that were saved last. */
export const readFigures = () => readSaved('figures.json') as Figures

/** The saved figures of mailboxes on mail servers, which a plain run does not measure. */
export type ServerFigures = { readonly parts: Figures, readonly matrix: StatusMatrix }

/** The figures of mailboxes that were saved last. */
export const readServerFigures = () => readSaved('figures-servers.json') as ServerFigures

/** The text of the file with the figures of mailboxes. */
export function serverFiguresText ({ rows, matrix }: MailboxFigures): string {
  const parts = figuresText(rows).trimEnd().replaceAll('\n', '\n  ')
  return `{\n  "parts": ${parts},\n  "matrix": ${JSON.stringify(matrix)}\n}\n`
}

/** Figures of this product and of others by name, as they were asked for the same addresses. */
export type PeerFigures = Readonly<Record<string, ProductFigures>>

/** The figures of peers that were saved last. */
export const readPeerFigures = () => readSaved('figures-peers.json') as PeerFigures

/** The text of the file with the figures of peers: a line for each kind of server. */
export function peerFiguresText (peers: PeerFigures): string {
  const products = Object.entries(peers).map(([name, figures]) => {
    const parts = Object.entries(figures).map(([part, counts]) =>
      `    ${JSON.stringify(part)}: ${JSON.stringify(counts)}`)
    return `  ${JSON.stringify(name)}: {\n${parts.join(',\n')}\n  }`
  })
  return `{\n${products.join(',\n')}\n}\n`
}

const keyOf = ({ suite, part }: AccuracyRow) => `${suite}: ${part}`

/** The text of the file with the figures: one line each. */
export function figuresText (rows: readonly AccuracyRow[]): string {
  const lines = rows.map(row => {
    const { total, right, wrong } = row
    return `  ${JSON.stringify(keyOf(row))}: ${JSON.stringify({ total, right, wrong })}`
  })
  return `{\n${lines.join(',\n')}\n}\n`
}

/** What has become worse than the saved figures, or has no saved figure; one sentence each. */
export function worseFigures (saved: Figures, rows: readonly AccuracyRow[]): readonly string[] {
  const missing = Object.keys(saved).filter(key => !rows.some(row => keyOf(row) === key))
    .map(key => `${key} is not measured any more. Measure it, or save without it.`)
  return missing.concat(rows.flatMap(row => {
    const before = saved[keyOf(row)]
    if (before === undefined) return [`${keyOf(row)} is new. Save its figures.`]
    const isWorse = row.right < before.right || row.wrong > before.wrong ||
      row.total < before.total
    if (!isWorse) return []
    const was = `${before.right} of ${before.total} right, ${before.wrong} wrong`
    const is = `${row.right} of ${row.total} right, ${row.wrong} wrong`
    return [`${keyOf(row)} became worse: ${is}; it was ${was}. For example: ` +
      row.cases.slice(0, 3).join('; ')]
  }))
}

/** Figures that a plain run does not measure. */
export type SavedFigures = { readonly servers: ServerFigures, readonly peers: PeerFigures }

/** The page that publishes the figures, as Markdown; those of mailboxes as they were saved. */
export function accuracyPage (
  rows: readonly AccuracyRow[], { servers, peers }: SavedFigures
): string {
  const table = rows.map(({ suite, part, total, right, wrong, missed }) =>
    `| ${suite} | ${part} | ${total} | ${percent(right, total)} | ${wrong} | ${missed} |`)
  const policies = Object.entries(POLICIES).map(([name, text]) => `- **${name}**: ${text}`)
  return `# How true the verdicts are

\`npm run accuracy\` measures the product by suites of others, without a network, and fails when a
figure becomes worse. This page is generated: \`npm run accuracy -- --save\`.

${headline(rows, servers)}

*Wrong* is what misleads: a real address or number called invalid, another number than the one that
was meant, a real domain corrected, a name called a role. *Missed* is what stays open or unsaid.

| suite | part | cases | right | wrong | missed |
|---|---|---:|---:|---:|---:|
${table.join('\n')}

## What replies of mail servers were taken for

Only a reply that names the mailbox or its domain as the cause makes a row \`invalid\`. Rows: what
the reply is about. Columns: what it was read as.

${REPLY_SUITES.map(confusionTable).join('\n\n')}

${mailboxSection(servers)}

${peerSection(peers)}

## Where suites and standards differ

${policies.join('\n')}

## Sources

[The list of sources](../../test/accuracy/data/SOURCES.md) names each with version and license.
`
}

function headline (rows: readonly AccuracyRow[], { matrix }: ServerFigures): string {
  const { total, falseInvalid, falseValid, unknown, vainlyUnknown } = countMatrix(matrix)
  const cells = rows.filter(({ suite }) => suite === 'phone cells')
  const sum = (column: 'total' | 'wrong') => cells.reduce((all, row) => all + row[column], 0)
  return `| in short | |
|---|---:|
| e-mail: false \`invalid\`, per 1,000 mailboxes | ${rate(falseInvalid, total, 1_000)} |
| e-mail: false \`valid\`, per 1,000 mailboxes | ${rate(falseValid, total, 1_000)} |
| e-mail: \`unknown\`, which is free | ${rate(unknown, total, 100)} % |
| e-mail: \`unknown\` although the truth can be known | ${rate(vainlyUnknown, total, 100)} % |
| phones: another number than the one meant, per 1,000 cells | \
${rate(sum('wrong'), sum('total'), 1_000)} |`
}

function countMatrix (matrix: StatusMatrix) {
  const names = Object.keys(matrix)
  const sum = (matches: (want: string, got: string) => boolean) => names.reduce((all, want) =>
    names.reduce((some, got) =>
      some + (matches(want, got) ? matrix[want]?.[got] ?? 0 : 0), all), 0)
  const without = (status: string) => sum((want, got) => got === status && want !== got)
  return {
    total: sum(() => true),
    falseInvalid: without('invalid'),
    falseValid: without('valid'),
    unknown: sum((_, got) => got === 'unknown'),
    vainlyUnknown: without('unknown'),
  }
}

function mailboxSection ({ parts, matrix }: ServerFigures): string {
  const lines = Object.entries(parts).map(([key, { total, right, wrong }]) =>
    `| ${key.slice(key.indexOf(': ') + 2)} | ${total} | ${percent(right, total)} | ${wrong} | ` +
    `${total - right - wrong} |`)
  const names = Object.keys(matrix)
  const statuses = names.map(want =>
    `| ${want} | ${names.map(got => matrix[want]?.[got]).join(' | ')} |`)
  return `## Mailboxes on mail servers

\`npm run accuracy -- --servers\` asks real servers (Postfix, postgrey, Exim, OpenSMTPD, Dovecot,
Haraka), and servers that speak as the public documents of providers say, for \
${countMatrix(matrix).total} addresses
whose truth is known, through \`smtp-probe\` with sockets and DNS. Each row must get its status, its
reason, and the columns \`mx_found\`, \`catch_all\`, \`role\`, \`free\` and \`disposable\`.
A mailbox that cannot be known (a host that accepts every name, blocks us or asks to come later)
must be \`unknown\`, which is free.

| server | addresses | right | wrong | missed |
|---|---:|---:|---:|---:|
${lines.join('\n')}

| must be | ${names.join(' | ')} |
|---|${names.map(() => '---:|').join('')}
${statuses.join('\n')}`
}

const COUNTS = ['falseInvalid', 'falseValid', 'falseRisky', 'unknown'] as const

function peerSection (peers: PeerFigures): string {
  const names = Object.keys(peers)
  const totals = Object.entries(peers).map(([name, figures]) => {
    const sum = (column: keyof ProductCounts) =>
      Object.values(figures).reduce((all, counts) => all + counts[column], 0)
    const total = sum('total')
    return `| ${name} | ${percent(sum('right'), total)} | ` +
      `${rate(sum('falseInvalid'), total, 1_000)} | ${rate(sum('falseValid'), total, 1_000)} | ` +
      `${rate(sum('unknown'), total, 100)} % |`
  })
  const parts = Object.entries(Object.values(peers)[0] ?? {}).map(([part, { total }]) => {
    const cells = names.map(name => {
      const counts = peers[name]?.[part]
      return counts === undefined
        ? ' | '
        : `${counts.right} | ${COUNTS.map(column => counts[column]).join(' / ')}`
    })
    return `| ${part} | ${total} | ${cells.join(' | ')} |`
  })
  return `## Other products, side by side

\`npm run accuracy -- --peers\` asks check-if-email-exists (MIT, Rust) for the same addresses, on
the same servers and DNS, started afresh, with the settings that its documentation suggests and as
many later tries. Its words map to statuses one to one (\`safe\` is \`valid\`). Only the status
counts here, and a convention of this product is not held against another: where two statuses are
true, both are right. [peers.ts](../../test/accuracy/servers/peers.ts) has settings and rules.
It asks Yahoo and Outlook.com by SMTP, because the web sites that its browser would visit are not
part of the suite; there it may know more of these two. AfterShip's verifier is not measured: its
module is not on the proxy that the suite uses.

| product | right | false \`invalid\` per 1,000 | false \`valid\` per 1,000 | \
\`unknown\` though it can be known |
|---|---:|---:|---:|---:|
${totals.join('\n')}

*Not right* are: false \`invalid\` / false \`valid\` / false \`risky\` / \`unknown\` although the
truth can be known.

| server | addresses |${names.map(name => ` ${name} | not right |`).join('')}
|---|---:|${names.map(() => '---:|---:|').join('')}
${parts.join('\n')}`
}

function confusionTable (suite: typeof REPLY_SUITES[number]): string {
  const matrix = confusionOf(loadReplies(suite))
  const names = Object.keys(matrix) as (keyof typeof matrix)[]
  const lines = names.map(want =>
    `| ${want.replaceAll('_', ' ')} | ${names.map(got => matrix[want][got]).join(' | ')} |`)
  return `| ${suite} | ${names.map(name => name.replaceAll('_', ' ')).join(' | ')} |
|---|${names.map(() => '---:|').join('')}
${lines.join('\n')}`
}

/** `part` of `total`, as so many of `per`. */
function rate (part: number, total: number, per: number): string {
  return (per * part / total).toFixed(1).replace('.0', '')
}

function percent (part: number, total: number): string {
  const text = (100 * part / total).toFixed(1)
  // 99.97 % is not all of them.
  return text === '100.0' && part < total ? '99.9 %' : `${text.replace('.0', '')} %`
}
