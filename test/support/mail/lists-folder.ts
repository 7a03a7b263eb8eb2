import { createHash } from 'node:crypto'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ListName, ListRelease } from '../../../services/jobs/lists-folder.ts'

type Content = Readonly<Partial<Record<ListName, string>>>
type Release = Partial<Pick<ListRelease, 'mode' | 'version' | 'publishedAt' | 'sha256'>>
type Changes = Release & { readonly renewedAt?: string }

const TODAY = new Date().toISOString().slice(0, 10)

/** Writes a folder of lists as `npm run lists` does: files first, the manifest last. */
export function writeLists (
  folder: string, content: Content, { renewedAt = TODAY, ...release }: Changes = {}
): void {
  mkdirSync(folder, { recursive: true })
  const lists = Object.entries(content).map(([list, text]) => {
    writeFileSync(join(folder, `${list}.txt`), text)
    const sha256 = createHash('sha256').update(text).digest('hex')
    const mode = list === 'allowed' ? 'extend' : 'replace'
    return [list, { mode, version: '1', publishedAt: TODAY, sha256, ...release }]
  })
  const next = join(folder, 'lists.json.next')
  writeFileSync(next, JSON.stringify({ renewedAt, lists: Object.fromEntries(lists) }))
  renameSync(next, join(folder, 'lists.json'))
}
