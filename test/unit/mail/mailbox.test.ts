import { describe, expect, it } from 'vitest'
import { normalizedMailbox } from '../../../services/mail/mailbox.ts'

const GOOGLE = 'aspmx.l.google.com'
const MICROSOFT = 'firm-org.mail.protection.outlook.com'

describe('the normalized form of an address', () => {
  // The pages that say so are named with the rules in services/mail/owners.ts.
  it.each([
    ['at Gmail', 'jdoe@gmail.com', 'jdoe@gmail.com', 'J.Doe@gmail.com', 'j.d.o.e+news@gmail.com',
      'jdoe@googlemail.com', 'jdoe+a+b@googlemail.com'],
    ['at Outlook', 'j.doe@outlook.com', 'J.Doe+news@outlook.com', 'j.doe+@outlook.com'],
    ['at Hotmail of a country', 'jdoe@hotmail.co.uk', 'jdoe+news@hotmail.co.uk'],
    ['at Yahoo', 'jdoe@yahoo.de', 'jdoe-news@yahoo.de', 'JDoe-a-b@yahoo.de'],
    ['at iCloud', 'jdoe@icloud.com', 'jdoe@me.com', 'jdoe+news@mac.com', 'JDoe@icloud.com'],
    ['at Proton', 'jdoe@proton.me', 'j.doe@protonmail.com', 'j-d_oe+news@pm.me', 'JDOE@proton.me'],
    ['at Fastmail', 'jdoe@fastmail.com', 'jdoe+news@fastmail.com', 'news@jdoe.fastmail.com'],
    ['at Yandex', 'jdoe@yandex.ru', 'jdoe@ya.ru', 'jdoe+news@yandex.com'],
  ])('%s is %s', (_, normalized, ...addresses) => {
    expect(addresses.map(address => normalizedMailbox(address)))
      .toEqual(addresses.map(() => normalized))
  })

  it.each([
    ['dots at Outlook', 'j.doe@outlook.com'], ['tags of other signs', 'j+a@yahoo.com'],
    ['hyphens at Gmail', 'jane-doe@gmail.com'], ['hyphens at AOL', 'jane-doe@aol.com'],
    ['a name that begins with the sign', '+jane@gmail.com'], ['a name of dots', '-@proton.me'],
    ['any other domain', 'j.doe+news@firm.org'], ['a quoted name', '"j.doe+a"@gmail.com'],
    ['a literal', 'j+a@[192.0.2.1]'], ['a domain below Gmail', 'j.doe@sub.gmail.com'],
    ['a domain far below Fastmail', 'news@a.b.fastmail.com'],
  ])('keeps %s', (_, address) => {
    expect(normalizedMailbox(address)).toBe(address)
  })

  it.each([
    ['Google', 'j.doe@firm.org', GOOGLE, 'j.doe+news@firm.org'],
    ['Microsoft', 'j.doe@firm.org', MICROSOFT, 'J.Doe+news@firm.org'],
    ['Proton', 'j.doe@firm.org', 'mail.protonmail.ch', 'j.doe+news@firm.org'],
    ['Fastmail', 'j.doe@firm.org', 'in1-smtp.messagingengine.com', 'j.doe+news@firm.org'],
    ['nobody listed', 'j.doe+news@firm.org', 'mail.firm.org', 'J.Doe+news@firm.org'],
    ['a gateway', 'j.doe+news@firm.org', 'mxa.gslb.pphosted.com', 'j.doe+news@firm.org'],
    ['Yahoo, whose rule is for its own domains', 'j-news@firm.org', 'mta5.am0.yahoodns.net',
      'j-news@firm.org'],
    ['another server than that of the owner of the domain', 'j.doe+a@gmail.com', 'mail.firm.org',
      'j.doe+a@gmail.com'],
    ['its owner', 'jdoe@gmail.com', 'gmail-smtp-in.l.google.com', 'j.doe+a@gmail.com'],
  ])('of a domain served by %s is %s', (_, normalized, exchange, address) => {
    expect(normalizedMailbox(address, exchange)).toBe(normalized)
  })
})
