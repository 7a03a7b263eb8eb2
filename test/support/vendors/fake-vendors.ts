import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { describedVendor, VENDOR_PRESETS, type VendorKey } from '../../../services/jobs/checks.ts'
import { EMAIL_VENDORS } from './fake-email-vendors.ts'
import { PHONE_VENDORS } from './fake-phone-vendors.ts'
import type { Asked, FakeMode, FakeVendor, Shared } from './fake-vendor.ts'
import { listen } from '../listen.ts'

/** Running vendors. */
export type FakeVendors = Awaited<ReturnType<typeof startFakeVendors>>

/** The fakes of all vendors, by the setting with their key. */
export const FAKE_VENDORS: Readonly<Record<VendorKey, FakeVendor>> =
  { ...PHONE_VENDORS, ...EMAIL_VENDORS }

/** Nothing that a customer sees may contain one of these. */
export const FAKE_WORDS: readonly string[] = [
  ...new Set([...VENDOR_PRESETS].flatMap(([name, { vendor }]) => [
    name.replace(/^http:|-batch$/g, ''),
    ...(vendor as { readonly words?: readonly string[] }).words ?? [],
  ])),
  'amazonaws', 'task-', 'SECRET-TEXT', ...Object.values(FAKE_VENDORS).map(({ key }) => key),
]

/** A key of the fake whose setting this is. */
function fakeKey (setting: VendorKey, url: string): string {
  const fake = FAKE_VENDORS[setting]
  if (fake !== undefined) return fake.key.replace('{url}', url)
  throw new Error(`there is no fake of the vendor with ${setting}: add it to PHONE_VENDORS or ` +
    'EMAIL_VENDORS in test/support/vendors/')
}

/** A preset as operators use it, but at the address of the fakes and with a changed description. */
export function presetAt (url: string, name: string, more: object = {}): object {
  const preset = VENDOR_PRESETS.get(name)
  if (preset === undefined) throw new Error(`there is no preset ${name}`)
  const vendor = describedVendor(preset, fakeKey(preset.key.setting, url))
  return { ...JSON.parse(JSON.stringify(vendor).replaceAll(/https:\/\/[a-z.]+/g, url)), ...more }
}

const ROUTES = Object.values(FAKE_VENDORS).flatMap(({ routes }) => Object.entries(routes))

/** The vendors of all presets at one address, in the forms that they document. */
export async function startFakeVendors () {
  let mode: FakeMode = 'well'
  /** The contacts of each call that a vendor would have charged for. */
  const purchases: (readonly string[])[] = []
  /** The names of the files of these calls, if they had one. */
  const files: string[] = []
  /** Method and path of every call. */
  const calls: string[] = []
  const shared: Shared = {
    mode: () => mode,
    tasks: new Map(),
    buy: (contacts, file) => {
      purchases.push(contacts)
      if (file !== undefined) files.push(file)
    },
  }
  let url = ''
  const server = createServer((request, response) => {
    const at = new URL(request.url ?? '/', url)
    const answer = async () => {
      const body = await buffer(request)
      const type = request.headers['content-type'] ?? ''
      const asked: Asked = {
        method: request.method ?? '',
        path: at.pathname,
        query: at.searchParams,
        headers: request.headers,
        url,
        json: () => JSON.parse(body.toString()) as unknown,
        form: async () =>
          await new Response(new Uint8Array(body), {
            headers: { 'content-type': type },
          }).formData(),
      }
      calls.push(`${asked.method} ${at.pathname}`)
      const handler = ROUTES.find(([prefix]) => at.pathname.startsWith(prefix))?.[1]
      const reply = await handler?.(asked, shared) ?? { status: 404, body: '' }
      if (reply.cut === true) return response.destroy()
      const retryAfter = reply.status === 429 ? { 'retry-after': '1' } : {}
      response.writeHead(reply.status ?? 200, { server: 'SECRET-TEXT', ...retryAfter })
      const isRaw = typeof reply.body === 'string' || Buffer.isBuffer(reply.body)
      response.end(isRaw ? reply.body : JSON.stringify(reply.body))
    }
    answer().catch(() => response.destroy())
  })
  url = `http://127.0.0.1:${await listen(server)}`
  return {
    url,
    purchases,
    files,
    calls,
    behave: (next: FakeMode) => { mode = next },
    stop: () => { server.close() },
  }
}
