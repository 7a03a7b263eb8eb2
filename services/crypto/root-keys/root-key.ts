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

/** A root key of the configuration: `where` is the key itself for a local one. */
export type RootKeyEntry = {
  readonly id: string
  readonly where: string
  /** The name of the setting, for errors. */
  readonly setting: string
}

/** What a provider is asked to do. */
export type RootKeyAction = 'encrypt' | 'decrypt'

/**
 * How errors name a key that a provider keeps: setting, id and where it is. None of them is secret
 * then.
 */
export function nameOfRootKey ({ setting, id, where }: RootKeyEntry): string {
  return `${setting}: key "${id}" (${where})`
}
