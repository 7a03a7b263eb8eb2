/** What an organization key belongs to. Neither field is empty, and neither is secret. */
export type KeyContext = { readonly purpose: string, readonly organization: string }

/**
 * One root key, wherever it is. Rejects with a SealError for changed bytes or another context, and
 * with an InfrastructureError while the key cannot be used.
 */
export type RootKey = {
  readonly encrypt: (plain: Buffer, context: KeyContext) => Promise<Buffer>
  readonly decrypt: (ciphertext: Buffer, context: KeyContext) => Promise<Buffer>
}
