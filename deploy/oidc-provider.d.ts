/** The parts of the library that are used here; it has no types of its own. */
declare module 'oidc-provider' {
  import type { RequestListener, Server } from 'node:http'

  type Grant = {
    readonly addOIDCScope: (scope: string) => void
    readonly save: () => Promise<string>
  }
  type Context = {
    readonly oidc: {
      readonly client: { readonly clientId: string }
      readonly session: { readonly accountId: string }
      readonly provider: Provider
    }
  }
  type Configuration = {
    readonly clients: readonly object[]
    readonly jwks: { readonly keys: readonly object[] }
    readonly adapter: object
    /** In seconds. */
    readonly ttl: Readonly<Record<string, number>>
    readonly features?: Readonly<Record<string, object>>
    readonly cookies?: { readonly keys: readonly string[] }
    readonly claims?: Readonly<Record<string, readonly string[]>>
    readonly findAccount?: (context: unknown, id: string) => {
      readonly accountId: string
      readonly claims: () => object
    }
    readonly loadExistingGrant?: (context: Context) => Promise<Grant>
  }

  export class Provider {
    constructor (issuer: string, configuration: Configuration)
    readonly Grant: new (of: { readonly clientId: string, readonly accountId: string }) => Grant
    callback (): RequestListener
    on (event: 'client_credentials.issued', listener: () => void): this
    listen (port: number, host: string, listening: () => void): Server
  }
}

declare module 'oidc-provider/lib/adapters/memory_adapter.js' {
  export function createMemoryAdapter (): object
}
