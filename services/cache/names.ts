import { hash } from 'node:crypto'

/** 36 bits: that two scopes begin alike is unlikely, and harms nobody as no token is of both. */
const DIGEST_CHARACTERS = 6

/**
 * What the names of a scope's entries begin with: `c:{<digest>}<version>:`. Each name ends with the
 * 16 bytes of a token, which is of one tenant, service and version alone, so the digest of tenant
 * and service only has to lead all entries of a command to one node of a cluster: those of a
 * contact under all its versions are asked for together. Names of 28 bytes instead of 75 take a
 * quarter of their time from Redis.
 */
export function startOf (
  { tenant, service, version }:
  { readonly tenant: string, readonly service: string, readonly version: string }
): string {
  const digest = hash('sha256', JSON.stringify([tenant, service]), 'base64url')
  return `c:{${digest.slice(0, DIGEST_CHARACTERS)}}${version}:`
}
