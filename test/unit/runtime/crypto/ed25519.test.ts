import { expect, it } from 'vitest'
import { publicKeyOf, signEd25519 } from '../../../../services/runtime/crypto/ed25519.ts'

/** RFC 8032, 7.1: private key, public key, message and signature, in hex. */
it.each([
  [
    '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    '',
    'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9' +
    'b46bd25bf5f0595bbe24655141438e7a100b',
  ],
  [
    '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
    '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
    '72',
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1' +
    '1d8c387b2eaeb4302aeeb00d291612bb0c00',
  ],
])('Ed25519 has the vector of RFC 8032 for %s', (seed, ...expected) => {
  const [key, message, signature] = expected
  const bytes = Buffer.from(seed, 'hex')
  expect(publicKeyOf(bytes).toString('hex')).toBe(key)
  const text = Buffer.from(message, 'hex').toString()
  expect(signEd25519(bytes, text).toString('hex')).toBe(signature)
})
