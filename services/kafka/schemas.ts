import { readdirSync, readFileSync } from 'node:fs'
import avro, { type Schema, type Type } from 'avsc'

/** A local schema: the registered JSON, and the type that encodes and decodes. */
export type OwnSchema = { readonly subject: string, readonly json: Schema, readonly type: Type }

/** A column of strings as one JSON array: ten times as fast as Avro strings one by one. */
class StringColumn extends avro.types.LogicalType {
  override _toValue (texts: unknown): string | undefined {
    return Array.isArray(texts) ? JSON.stringify(texts) : undefined
  }

  override _fromValue (json: string): readonly string[] {
    return JSON.parse(json) as string[]
  }

  /** The registry client drops logical types, so the schema of a writer may be a plain string. */
  override _resolve (writer: Type) {
    if (writer instanceof StringColumn) return (texts: unknown) => texts
    const isText = avro.Type.isType(writer, 'string')
    return isText ? (json: unknown) => this._fromValue(json as string) : undefined
  }
}

/** The read position of avsc in a buffer, which its types do not declare. */
type Tap = {
  readonly buf: Buffer
  readonly pos: number
  readonly readLong: () => number
  readonly skipLong: () => void
}

/**
 * An array whose length is checked before its items are read. The library reads as many items as
 * the length says, even beyond the end of the buffer, so a damaged length could use all memory.
 */
class BoundedArray extends avro.types.ArrayType {
  declare readonly itemsType: Type & { readonly _read: (tap: Tap) => unknown }

  _read (tap: Tap): unknown[] {
    const items: unknown[] = []
    for (let size = tap.readLong(); size !== 0; size = tap.readLong()) {
      if (size < 0) tap.skipLong()
      const left = Math.abs(size)
      const bytes = tap.buf.length - tap.pos
      if (left > bytes) {
        throw new RangeError(`invalid Avro array: ${left} items in ${bytes} bytes`)
      }
      for (let item = 0; item < left; item++) items.push(this.itemsType._read(tap))
    }
    return items
  }
}

/** The type of an Avro schema; each call has its own namespace of named types. */
export function avroTypeOf (json: Schema): Type {
  return avro.Type.forSchema(json, {
    logicalTypes: { texts: StringColumn },
    typeHook: (schema, options) => (schema as { type?: unknown }).type === 'array'
      ? new BoundedArray(schema, options)
      : undefined,
  })
}

/** The local schemas by subject, sorted by file: `<topic>.avsc` and `<topic>-rows.avsc`. */
export function ownSchemas (): ReadonlyMap<string, OwnSchema> {
  loaded ??= load()
  return loaded
}

/**
 * The local schema of a subject.
 * @throws TypeError for an unknown subject.
 */
export function ownSchema (subject: string): OwnSchema {
  const schema = ownSchemas().get(subject)
  if (schema === undefined) {
    const file = `schemas/${subject.replace(/-value$/, '')}.avsc`
    throw new TypeError(`unknown schema subject ${subject}: there is no ${file}`)
  }
  return schema
}

function load (): ReadonlyMap<string, OwnSchema> {
  const folder = new URL('../../schemas/', import.meta.url)
  const files = readdirSync(folder).filter(file => file.endsWith('.avsc')).sort()
  return new Map(files.map(file => {
    const base = file.slice(0, -'.avsc'.length)
    const subject = base.endsWith('-rows') ? base : `${base}-value`
    const json = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Schema
    return [subject, { subject, json, type: avroTypeOf(json) }]
  }))
}

let loaded: ReadonlyMap<string, OwnSchema> | undefined
