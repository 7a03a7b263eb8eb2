import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ManifestEntry } from '../jobs/job.ts'

/** Caches may store results, but must revalidate them. */
const CACHING = { vary: 'Accept, Accept-Encoding', 'cache-control': 'private, no-cache' } as const

/** The caching headers of results with these blocks, in a format identified by `forms`. */
export function cachingHeaders (
  manifest: readonly ManifestEntry[], forms: readonly string[]
): Record<string, string> & { readonly etag: string } {
  return { ...CACHING, etag: entityTag(manifest, forms) }
}

/** Whether the client already has these results; then the response is 304. */
export function isUnchanged (
  request: FastifyRequest, reply: FastifyReply, headers: { readonly etag: string }
): boolean {
  if (!listsTag(request.headers['if-none-match'], headers.etag)) return false
  reply.code(304).headers(headers)
  return true
}

/** Results never change, so their tag is a digest of the manifest; each format has its own tag. */
function entityTag (manifest: readonly ManifestEntry[], forms: readonly string[]): string {
  const hash = createHash('sha256')
  const parts = manifest.map(({ chunk, digest, won }) =>
    `${chunk}|${digest}|${won.toString('hex')}`)
  for (const part of parts.sort()) hash.update(`${part}\n`)
  return `"${[hash.digest('hex').slice(0, 32), ...forms].join('-')}"`
}

function listsTag (header: string | undefined, tag: string): boolean {
  const tags = (header ?? '').split(',').map(text => text.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(tag)
}
