import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import avro from 'avsc'
import { describe, expect, it } from 'vitest'
import { root } from '../support/sources.ts'

type Example = { readonly path: string, readonly subject: string, readonly valid: boolean }

const examples: readonly Example[] = globSync('schemas/examples/*/*.json', { cwd: root })
  .map(path => {
    const name = basename(path)
    const topic = basename(dirname(path))
    return {
      path,
      subject: name.startsWith('rows-') ? `${topic}-rows` : topic,
      valid: name.includes('invalid') === false,
    }
  })

const typeOf = (subject: string) => avro.Type.forSchema(
  JSON.parse(readFileSync(join(root, 'schemas', `${subject}.avsc`), 'utf8')))

describe('the examples of every topic', () => {
  it.each(examples.filter(example => example.valid))('$path survives encoding', example => {
    const type = typeOf(example.subject)
    const text = readFileSync(join(root, example.path), 'utf8')
    const value = type.fromString(text)
    expect(JSON.parse(type.toString(type.fromBuffer(type.toBuffer(value)))))
      .toEqual(JSON.parse(text))
  })

  it.each(examples.filter(example => !example.valid))('$path is refused', example => {
    const text = readFileSync(join(root, example.path), 'utf8')
    expect(() => typeOf(example.subject).fromString(text)).toThrow()
  })
})
