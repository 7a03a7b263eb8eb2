import { once } from 'node:events'
import type { KMS } from '@aws-sdk/client-kms'
import { ConfigError, nameKey } from '../../platform/config.ts'
import { FatalError, InfrastructureError } from '../../platform/errors.ts'
import { SealError } from '../seal.ts'
import {
  nameOfRootKey, type RootKey, type RootKeyAction, type RootKeyEntry,
} from './root-key.ts'

/** An id, an alias or an ARN, in the characters that AWS allows. */
const WHERE = /^aws-kms:((?:arn:[\w-]+:kms:([\w-]+):\d+:)?[\w:/-]+)$/

/**
 * A symmetric key of AWS KMS. Credentials, region and endpoint follow the standard chain of the AWS
 * SDK; the region of an ARN comes first. The SDK is loaded by the first call.
 * @throws ConfigError for an invalid key.
 */
export function awsKmsRootKey (entry: RootKeyEntry, timeoutMs: number): RootKey {
  const [, key, region] = WHERE.exec(entry.where) ?? []
  if (key === undefined) {
    throw new ConfigError([`${entry.setting}: ${nameKey(entry.id)} must be aws-kms: and the id, ` +
      'alias (alias/...) or ARN of a key'])
  }
  const failing = { ...entry, timeoutMs }
  let connected: Promise<KMS> | undefined
  const send = async <T>(action: RootKeyAction, call: Call<T>) => {
    connected ??= import('@aws-sdk/client-kms').then(({ KMS }) =>
      new KMS(region === undefined ? {} : { region }))
    const abortSignal = AbortSignal.timeout(timeoutMs)
    try {
      const sent = connected.then(kms => call(kms, { abortSignal }))
      const timeout = once(abortSignal, 'abort').then(() => abortSignal.throwIfAborted() as never)
      return await Promise.race([sent, timeout])
    } catch (error) {
      // The SDK waits forever for credentials whose source hangs, in later calls too.
      if (abortSignal.aborted) connected = undefined
      throw failureOf(error, action, failing)
    }
  }
  return {
    encrypt: async (Plaintext, { purpose, organization }) => {
      const { CiphertextBlob } = await send('encrypt', (kms, options) => kms.encrypt({
        KeyId: key, Plaintext, EncryptionContext: { purpose, organization },
      }, options))
      return bytesOf(CiphertextBlob, failing)
    },
    decrypt: async (CiphertextBlob, { purpose, organization }) => {
      const { Plaintext } = await send('decrypt', (kms, options) => kms.decrypt({
        KeyId: key, CiphertextBlob, EncryptionContext: { purpose, organization },
      }, options))
      return bytesOf(Plaintext, failing)
    },
  }
}

type Call<T> = (kms: KMS, options: { readonly abortSignal: AbortSignal }) => Promise<T>
type Failing = RootKeyEntry & { readonly timeoutMs: number }

/** The same memory, so that clearing the result leaves no copy of a key. */
function bytesOf (bytes: Uint8Array | undefined, entry: RootKeyEntry): Buffer {
  if (bytes !== undefined) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  throw new InfrastructureError(`${nameOfRootKey(entry)}: the response is not from AWS KMS: ` +
    'check AWS_ENDPOINT_URL_KMS')
}

/** Without the error as its cause: the SDK attaches bodies of responses, which may hold a key. */
function failureOf (error: unknown, action: RootKeyAction, failing: Failing): Error {
  const { name = 'unknown error', code, $metadata } = error as Partial<KmsError>
  const key = nameOfRootKey(failing)
  if (name === 'InvalidCiphertextException') {
    return new SealError(`${key} cannot decrypt: wrong context or modified bytes`)
  }
  if (name === 'IncorrectKeyException') {
    return new FatalError(`${key} is not the key that wraps a key in use: set the id back to the ` +
      'key of AWS KMS that it had, and add another id for the new one')
  }
  const status = $metadata?.httpStatusCode
  const permission = `kms:${action === 'encrypt' ? 'Encrypt' : 'Decrypt'}`
  const advice = ADVICE.get(name) ?? (name === 'AccessDeniedException' || status === 403
    ? `allow ${permission} on the key for these credentials`
    : 'check the network, AWS_REGION, the source of credentials and the status of AWS KMS')
  const details = [
    name,
    ...typeof code === 'string' ? [code] : [],
    ...status === undefined ? [] : [`status ${status}`],
    ...LATE.has(name) ? [`no response within ${failing.timeoutMs} ms`] : [],
  ]
  return new InfrastructureError(`${key} cannot ${action} (${details.join(', ')}): ${advice}`)
}

/** What is shown of an error: of a service of AWS, of the SDK, or of the network. */
type KmsError = {
  readonly name: string
  readonly code: unknown
  readonly $metadata: { readonly httpStatusCode?: number }
}

const LATE: ReadonlySet<string> = new Set(['AbortError', 'TimeoutError'])

const CREDENTIALS = 'check the AWS credentials of this process: the role, or AWS_ACCESS_KEY_ID'
const THROTTLED = 'it is retried; if that lasts, request a higher quota of AWS KMS'
const DISABLED = 'enable the key in AWS KMS, or cancel its deletion'

/** What an operator does, by the name of the error. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['CredentialsProviderError', CREDENTIALS],
  ['UnrecognizedClientException', CREDENTIALS],
  ['InvalidClientTokenId', CREDENTIALS],
  ['InvalidSignatureException', CREDENTIALS],
  ['ExpiredTokenException', CREDENTIALS],
  ['ThrottlingException', THROTTLED],
  ['LimitExceededException', THROTTLED],
  ['DisabledException', DISABLED],
  ['KMSInvalidStateException', DISABLED],
  ['NotFoundException', 'check the key, the account and AWS_REGION'],
  ['InvalidKeyUsageException', 'use a symmetric key for encryption and decryption'],
])
