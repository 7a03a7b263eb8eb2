import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** All files below a folder; those that vanish meanwhile are left out. */
export function filesBelow (folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map(name => join(folder, name))
    .filter(path => statSync(path, { throwIfNoEntry: false })?.isFile())
}

/** The files below a folder that hold any of these bytes. */
export function filesWith (folder: string, wanted: readonly Buffer[]): readonly string[] {
  return filesBelow(folder).filter(path => {
    const bytes = contentOf(path)
    return wanted.some(form => bytes.includes(form))
  })
}

function contentOf (path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}
