import { readdirSync, readFileSync } from 'node:fs'
import type { CHECKS } from '../../schemas/api/services.ts'

/** A vendor that deploy/providers/ describes; PROVIDERS names it `http:<name>`. */
export type VendorPreset = {
  /** Pages of the vendor that the description follows. */
  readonly docs: readonly string[]
  /** The setting with the key, what it holds, and its form if it has several parts. */
  readonly key: { readonly setting: VendorKey, readonly about: string, readonly form?: string }
  readonly checks: readonly (keyof typeof CHECKS)[]
  /** The description with the placeholders of the key, in the form of HTTP_PROVIDERS. */
  readonly vendor: object
}

export type VendorKey = `VENDOR_${string}_KEY`

const FOLDER = new URL('../../deploy/providers/', import.meta.url)

/** All presets by the name in PROVIDERS, in alphabetical order. */
export const VENDOR_PRESETS: ReadonlyMap<string, VendorPreset> = new Map(
  readdirSync(FOLDER).filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -'.json'.length)).toSorted().map((name) => {
      const text = readFileSync(new URL(`${name}.json`, FOLDER), 'utf8')
      return [`http:${name}`, JSON.parse(text) as VendorPreset]
    }))

/** The settings with the keys of presets, each once. */
export const VENDOR_KEYS: readonly VendorPreset['key'][] =
  [...new Map([...VENDOR_PRESETS.values()].map(({ key }) => [key.setting, key])).values()]

/** Whether the text is a key of that form. */
export function isVendorKey ({ form }: VendorPreset['key'], text: string): boolean {
  return partsOf(form, text) !== undefined
}

/**
 * The description of a preset with the key in its places.
 * @throws RangeError for a key that has another form.
 */
export function describedVendor ({ key, vendor }: VendorPreset, text: string): unknown {
  const parts = partsOf(key.form, text)
  if (parts === undefined) throw new RangeError(`${key.setting} must be ${key.form ?? 'a key'}`)
  return JSON.parse(JSON.stringify(vendor), (_, value: unknown) => typeof value === 'string'
    ? value.replace(KEY_PLACE, (_whole, name: string = '') => parts[name] ?? '')
    : value) as unknown
}

/** `{key}` for all of it, `{key.part}` for a part. */
const KEY_PLACE = /\{key(?:\.([a-z]+))?\}/g
const PART = /\{([a-z]+)\}/g

/** The parts of a key by their names in the form, and all of it by the empty name. */
function partsOf (form = '', text: string): Readonly<Record<string, string>> | undefined {
  if (!/^[^\s{}](?:[^{}\r\n]*[^\s{}])?$/.test(text)) return undefined
  if (form === '') return /\s/.test(text) ? undefined : { '': text }
  const names = Array.from(form.matchAll(PART), ([, name = '']) => name)
  const pattern = form.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(PART, '(\\S+?)')
  const found = new RegExp(`^${pattern}$`).exec(text)
  if (found === null) return undefined
  return { '': text, ...Object.fromEntries(names.map((name, at) => [name, found[at + 1] ?? ''])) }
}
