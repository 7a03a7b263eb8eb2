/** Cases on which suites and standards differ, with what the product does and why. */
export const POLICIES: Readonly<Record<string, string>> = {
  outer_white_space: 'White space and line breaks around an input are trimmed: cells of ' +
    'files have them.',
  trailing_dot: 'A dot at the end of the domain is dropped: it is the root of the DNS.',
  public_domain: 'A domain of one label, or with a numeric last label, is not in the ' +
    'public DNS: invalid in preflight, free.',
  folding: 'A line break inside an input is a control character, so the row is invalid.',
  quoted: 'A quoted local part is valid (RFC 5321, 4.1.2).',
  literal: 'An address in brackets is a domain (RFC 5321, 4.1.3); if it is not public, ' +
    'the row is invalid.',
  comments: 'Comments are removed (RFC 5322, 3.2.2).',
  display_name: 'Display names are removed, also where they are not quoted as they ' +
    'should be.',
  reserved: 'Reserved domains are valid syntax; the row is invalid with the reason ' +
    '`reserved_domain`.',
  full_width: 'Full-width characters are those of ASCII, in a domain as IDNA maps them, in a ' +
    'local part as RFC 8265 does.',
  obsolete: 'Obsolete syntax (RFC 5322, 4) that no address in use has is invalid: white space, ' +
    'comments and quoted strings between the words of a local part or the labels of a domain. ' +
    'is_email accepts a comment there, hapi does not. Around an address, and beside its `@`, ' +
    'white space and comments are removed.',
  ending: 'An ending that does not exist is found by the DNS: is_email accepts `co-uk` and `a` ' +
    'as endings, python-email-validator and validator.js accept no such ones. A sign in an ' +
    'ending, such as `com©`, is invalid.',
  'e-mail syntax': 'Three cases differ: an escaped non-ASCII character is allowed since RFC ' +
    '6532, after is_email; a label `xn--` that encodes nothing is invalid (RFC 5890); lengths ' +
    'are counted after NFC, the form in which the address is used.',
  'roles and names': 'sales, root, post, board, list, press, people, job, staff and seo ' +
    'are roles, although some people have these surnames.',
  'phone places': 'A place that is the name of its country is shown where Google leaves it blank.',
  'phones without plus, from abroad': 'Digits without a plus or an international prefix mean a ' +
    'number of the country of the job, by the interface.',
  'short providers': 'A typo of a name of three letters or fewer is not corrected: too ' +
    'many real domains are near it.',
}
