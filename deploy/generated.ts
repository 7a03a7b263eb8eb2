import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'

/**
 * Runs the program `npm run <name>`, which writes generated files, removes obsolete ones, and names
 * each that it changes. With `--check` it changes none, and exits with 1 if one is out of date.
 */
export function writeGenerated (
  name: string, description: string, files: ReadonlyMap<URL, string>, obsolete: readonly URL[] = []
): void {
  const { check } = new Command(name).description(description)
    .option('--check', 'write nothing; exits with 1 when a file is out of date')
    .parse().opts<{ check?: true }>()
  const outdated = [...files].filter(([file, text]) =>
    !existsSync(file) || readFileSync(file, 'utf8') !== text)
  if (check === true) {
    const paths = [...outdated.map(([file]) => file), ...obsolete].map(relativePath)
    if (paths.length === 0) return
    console.error(`out of date (${paths.join(', ')}): run "npm run generate"`)
    process.exitCode = 1
    return
  }
  for (const [file, text] of outdated) {
    mkdirSync(new URL('.', file), { recursive: true })
    writeFileSync(file, text)
    console.log(`wrote ${relativePath(file)}`)
  }
  for (const file of obsolete) {
    rmSync(file)
    console.log(`removed ${relativePath(file)}`)
  }
}

const relativePath = (file: URL) => relative('.', fileURLToPath(file))
