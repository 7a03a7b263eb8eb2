import { readFileSync } from 'node:fs'

/** What `<folder>/stack.json` of "npm run up" says; nothing when there is none. */
export function readLocalStack (folder: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(readFileSync(`${folder}/stack.json`, 'utf8')) as Record<string, unknown>
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
  }
}
