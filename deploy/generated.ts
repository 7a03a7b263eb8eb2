import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'

/**
 * Runs the program `npm run <name>`, which writes generated files. With `--check` it writes none,
 * and exits with 1 if one is out of date.
 */
export function writeGenerated (
  name: string, description: string, files: ReadonlyMap<URL, string>
): void {
  const { check } = new Command(name).description(description)
    .option('--check', 'write nothing; exits with 1 when a file is out of date')
    .parse().opts<{ check?: true }>()
  const outdated = [...files].filter(([file, text]) =>
    !existsSync(file) || readFileSync(file, 'utf8') !== text)
  if (check !== true) {
    for (const [file, text] of outdated) writeFileSync(file, text)
  } else if (outdated.length > 0) {
    const paths = outdated.map(([file]) => relative('.', fileURLToPath(file)))
    console.error(`out of date (${paths.join(', ')}): run "npm run ${name}"`)
    process.exitCode = 1
  }
}
