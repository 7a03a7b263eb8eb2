import type { Parameter } from './document.ts'
import { escaped, lineHtml } from './markdown.ts'

/** The subset of JSON Schema that the bodies use. */
type Schema = {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly description?: string
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly additionalProperties?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly maxLength?: number
  readonly maxProperties?: number
}

type Field = {
  readonly name: string
  readonly schema: Schema
  /** Path, query or header of a parameter. */
  readonly location?: string
  readonly isRequired: boolean
}

/** The parameters of an operation, those of the path first. */
export function parametersHtml (parameters: readonly Parameter[]): string {
  const inOrder = ['path', 'query', 'header'].flatMap(location =>
    parameters.filter(parameter => parameter.in === location))
  return listHtml(inOrder.map(({ name, in: location, required, description, schema }) => ({
    name,
    location,
    isRequired: required === true,
    schema: { ...schema, ...(description === undefined ? {} : { description }) },
  })))
}

/** The fields of a body; nested fields by path, like `preflight.totalRows` or `data[].id`. */
export function fieldsHtml (
  schema: object, { isRequest }: { readonly isRequest: boolean }
): string {
  return listHtml(fieldsOf(schema, '').map(field =>
    isRequest ? field : { ...field, isRequired: false }))
}

function fieldsOf ({ properties = {}, required = [] }: Schema, prefix: string): readonly Field[] {
  return Object.entries(properties).flatMap(([key, schema]) => {
    const name = `${prefix}${key}`
    const inner = schema.items === undefined
      ? fieldsOf(schema, `${name}.`)
      : fieldsOf(schema.items, `${name}[].`)
    return [{ name, schema, isRequired: required.includes(key) }, ...inner]
  })
}

function listHtml (fields: readonly Field[]): string {
  if (fields.length === 0) return ''
  const items = fields.map(({ name, schema, location, isRequired }) => {
    const kind = [...(location === undefined ? [] : [location]), kindOf(schema)].join(', ')
    const { description } = schema
    return `<li><code class="name">${escaped(name)}</code> ` +
      `<span class="kind">${escaped(kind)}</span>` +
      (isRequired ? ' <span class="remark">required</span>' : '') + valuesHtml(schema) +
      (description === undefined ? '' : `<p>${lineHtml(description)}</p>`) + '</li>'
  })
  return `<ul class="fields">${items.join('')}</ul>`
}

function kindOf (schema: Schema): string {
  const type = [schema.type ?? typeof (schema.const ?? schema.enum?.[0])].flat().join(' or ')
  const inner = schema.items === undefined ? '' : ` of ${kindOf(schema.items)}`
  return [`${type}${inner}`, ...boundsOf(schema)].join(', ')
}

const number = (value: number) => value.toLocaleString('en-US')

function boundsOf (schema: Schema): readonly string[] {
  const { minimum, maximum, minItems, maxItems, maxLength, maxProperties } = schema
  return [
    minimum !== undefined && maximum !== undefined && `${number(minimum)} to ${number(maximum)}`,
    minItems !== undefined && maxItems !== undefined &&
      `${number(minItems)} to ${number(maxItems)} items`,
    maxLength !== undefined && `up to ${number(maxLength)} characters`,
    maxProperties !== undefined && `up to ${number(maxProperties)} members`,
    schema.default !== undefined && `${JSON.stringify(schema.default)} by default`,
  ].filter(bound => bound !== false)
}

/** The allowed values of a field. */
function valuesHtml ({ enum: listed, const: only }: Schema): string {
  const all = listed ?? (only === undefined ? [] : [only])
  if (all.length === 0) return ''
  const codes = all.map(value => `<code>${escaped(String(value))}</code>`)
  return `<p class="words">${codes.join(' ')}</p>`
}
