import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'

const folder = new URL('../../schemas/clickhouse/', import.meta.url)

/**
 * A numbered file of statements; once released, its number and content never change. It only adds,
 * so that the previous release keeps working. A migration that removes something is named after the
 * release that stopped using it, as `0012_old_columns_unused_since_1.4.0.sql`.
 */
export type Migration = {
  readonly number: number
  readonly name: string
  /** Hex SHA-256 of the file. */
  readonly digest: string
  readonly statements: readonly string[]
}

/** A migration that a database has. */
export type Applied = { readonly number: number, readonly name: string, readonly digest: string }

/** All migrations in order. Throws if the numbers are not 1, 2, 3 and so on. */
export function migrations (): readonly Migration[] {
  const files = readdirSync(folder).filter(file => file.endsWith('.sql')).sort()
  return files.map((name, index) => {
    const number = Number(name.slice(0, 4))
    if (number !== index + 1) throw new Error(`migration ${name} should have number ${index + 1}`)
    const text = readFileSync(new URL(name, folder), 'utf8')
    const digest = createHash('sha256').update(text).digest('hex')
    return { number, name, digest, statements: splitStatements(text) }
  })
}

/** The statements of a file, each ended by a semicolon at the end of a line. */
function splitStatements (text: string): readonly string[] {
  return text.split(/;\s*$/m).map(statement => statement.trim())
    .filter(statement => statement.replace(/^\s*--.*$/gm, '').trim() !== '')
}

/** The release that stopped using what the migration removes; undefined if it only adds. */
function unusedSince (name: string): string | undefined {
  return /_unused_since_(\d+\.\d+\.\d+)\.sql$/.exec(name)?.[1]
}

/**
 * The migrations to apply. Migrations of newer releases are ignored: they only add, or remove what
 * `release` does not use any more.
 * @throws Error if one removed what this release uses, or was edited after it was applied.
 */
export function selectPending (
  migrations: readonly Migration[], applied: readonly Applied[], release: string
): readonly Migration[] {
  for (const { number, name, digest } of applied) {
    const migration = migrations[number - 1]
    const since = unusedSince(name)
    if (since !== undefined && compareReleases(release, since) < 0) {
      throw new Error(`the database has migration ${name}, which removed what release ${release} ` +
        `uses: deploy release ${since} or newer`)
    }
    if (migration !== undefined && migration.digest !== digest) {
      throw new Error(`migration ${name} was changed after it was applied: ` +
        'restore the file and put the change into a new one')
    }
  }
  const done = new Set(applied.map(({ number }) => number))
  return migrations.filter(({ number }) => !done.has(number))
}

function compareReleases (one: string, other: string): number {
  return one.localeCompare(other, 'en', { numeric: true })
}
