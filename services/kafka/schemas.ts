import { readdirSync, readFileSync } from 'node:fs'
import avro, { type Schema, type Type } from 'avsc'

/** One of our own schemas: as it is registered, and ready to encode and decode. */
export type OwnSchema = { readonly subject: string, readonly json: Schema, readonly type: Type }

/**
 * A column of texts, written as one JSON array: the runtime reads and writes it as a whole, which
 * takes a tenth of the time that Avro takes for the texts one by one.
 */
class Texts extends avro.types.LogicalType {
  override _toValue (texts: unknown): string | undefined {
    return Array.isArray(texts) ? JSON.stringify(texts) : undefined
  }

  override _fromValue (json: string): readonly string[] {
    return JSON.parse(json) as string[]
  }

  /** The registry's client gives a writer's schema without what it does not know: as plain text. */
  override _resolve (writer: Type) {
    if (writer instanceof Texts) return (texts: unknown) => texts
    const isText = avro.Type.isType(writer, 'string')
    return isText ? (json: unknown) => this._fromValue(json as string) : undefined
  }
}

/** Where a reader is in the bytes of a value; the library's own types leave it out. */
type Tap = {
  readonly buf: Buffer
  readonly pos: number
  readonly readLong: () => number
  readonly skipLong: () => void
}

/**
 * A list whose length is checked before its items are read. The library reads as many items as a
 * list says it has, also behind the end of the bytes: a few damaged ones would take all memory.
 */
class Lists extends avro.types.ArrayType {
  declare readonly itemsType: Type & { readonly _read: (tap: Tap) => unknown }

  _read (tap: Tap): unknown[] {
    const items: unknown[] = []
    for (let size = tap.readLong(); size !== 0; size = tap.readLong()) {
      if (size < 0) tap.skipLong()
      const left = Math.abs(size)
      const bytes = tap.buf.length - tap.pos
      if (left > bytes) throw new RangeError(`a list of ${left} items in ${bytes} bytes`)
      for (let item = 0; item < left; item++) items.push(this.itemsType._read(tap))
    }
    return items
  }
}

/** The type of an Avro schema; every call is a world of names of its own. */
export function typeOf (json: Schema): Type {
  return avro.Type.forSchema(json, {
    logicalTypes: { texts: Texts },
    typeHook: (schema, options) =>
      (schema as { type?: unknown }).type === 'array' ? new Lists(schema, options) : undefined,
  })
}

/** Our schemas by subject, sorted by file: `<topic>.avsc` and `<topic>-rows.avsc`. */
export function ownSchemas (): ReadonlyMap<string, OwnSchema> {
  loaded ??= load()
  return loaded
}

/** Our schema of a subject; a subject without one is a mistake in the code. */
export function ownSchema (subject: string): OwnSchema {
  const schema = ownSchemas().get(subject)
  if (schema === undefined) throw new TypeError(`there is no schema of the subject ${subject}`)
  return schema
}

function load (): ReadonlyMap<string, OwnSchema> {
  const folder = new URL('../../schemas/', import.meta.url)
  const files = readdirSync(folder).filter(file => file.endsWith('.avsc')).sort()
  return new Map(files.map(file => {
    const base = file.slice(0, -'.avsc'.length)
    const subject = base.endsWith('-rows') ? base : `${base}-value`
    const json = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Schema
    return [subject, { subject, json, type: typeOf(json) }]
  }))
}

let loaded: ReadonlyMap<string, OwnSchema> | undefined
