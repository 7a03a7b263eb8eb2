import type { KMS } from '@aws-sdk/client-kms'
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
 * @throws TypeError for an invalid key.
 */
export function awsKmsRootKey (entry: RootKeyEntry, timeoutMs: number): RootKey {
  const [, key, region] = WHERE.exec(entry.where) ?? []
  if (key === undefined) {
    throw new TypeError(`${entry.setting}: key "${entry.id}" must be aws-kms: and the id, alias ` +
      '(alias/...) or ARN of a key')
  }
  const failing = { ...entry, timeoutMs }
  let connected: Promise<KMS> | undefined
  const send = async <T>(action: RootKeyAction, call: Call<T>) => {
    try {
      connected ??= connect(region)
      return await call(await connected, { abortSignal: AbortSignal.timeout(timeoutMs) })
    } catch (error) {
      throw failureOf(error, action, failing)
    }
  }
  return {
    encrypt: async (Plaintext, EncryptionContext) => {
      const { CiphertextBlob } = await send('encrypt', (kms, options) =>
        kms.encrypt({ KeyId: key, Plaintext, EncryptionContext }, options))
      return bytesOf(CiphertextBlob, failing)
    },
    decrypt: async (CiphertextBlob, EncryptionContext) => {
      const { Plaintext } = await send('decrypt', (kms, options) =>
        kms.decrypt({ KeyId: key, CiphertextBlob, EncryptionContext }, options))
      return bytesOf(Plaintext, failing)
    },
  }
}

type Call<T> = (kms: KMS, options: { readonly abortSignal: AbortSignal }) => Promise<T>
type Failing = RootKeyEntry & { readonly timeoutMs: number }

async function connect (region: string | undefined): Promise<KMS> {
  const { KMS } = await import('@aws-sdk/client-kms')
  return new KMS(region === undefined ? {} : { region })
}

/** The same memory, so that clearing the result leaves no copy of a key. */
function bytesOf (bytes: Uint8Array | undefined, entry: RootKeyEntry): Buffer {
  if (bytes !== undefined) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  throw new InfrastructureError(`${nameOfRootKey(entry)}: the response is not from AWS KMS: ` +
    'check AWS_ENDPOINT_URL_KMS')
}

/** Without the error as its cause: the SDK attaches bodies of responses, which may hold a key. */
function failureOf (error: unknown, action: RootKeyAction, failing: Failing): Error {
  const key = nameOfRootKey(failing)
  const name = error instanceof Error ? error.name : 'unknown error'
  const code = error instanceof Error && 'code' in error ? ` ${String(error.code)}` : ''
  if (name === 'InvalidCiphertextException') {
    return new SealError(`${key} cannot decrypt: wrong context or modified bytes`)
  }
  if (name === 'IncorrectKeyException') {
    return new FatalError(`${key} is not the key that wraps a key in use: set the id back to the ` +
      'key of AWS KMS that it had, and add another id for the new one')
  }
  const advice = name === 'AccessDeniedException'
    ? `allow kms:${action === 'encrypt' ? 'Encrypt' : 'Decrypt'} on the key for these credentials`
    : ADVICE.get(name) ?? 'check the network, AWS_REGION and the status of AWS KMS'
  const late = LATE.has(name) ? `, no response within ${failing.timeoutMs} ms` : ''
  return new InfrastructureError(`${key} cannot ${action} (${name}${code}${late}): ${advice}`)
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
