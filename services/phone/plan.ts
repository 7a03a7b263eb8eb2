import { isKnownCountry, libraryPlan, type AssignedType, type LibraryPlan } from './library.ts'
import { compileFormats, type FormatRule } from './layout.ts'

/** Bit n is set if n digits are possible. */
export type Lengths = number

export type TypeRule = {
  readonly type: AssignedType
  readonly lengths: Lengths
  readonly pattern: RegExp
}

/** The prefix of national numbers, and the replacement of its captured groups. */
export type NationalPrefix = { readonly pattern: RegExp, readonly transform: string | undefined }

/** A numbering plan of the library with compiled patterns. */
export type Plan = {
  /** Undefined for global services such as +800. */
  readonly country: string | undefined
  readonly callingCode: string
  readonly pattern: RegExp
  readonly lengths: Lengths
  readonly maxLength: number
  readonly leadingDigits: RegExp | undefined
  readonly nationalPrefix: NationalPrefix | undefined
  readonly internationalPrefix: RegExp | undefined
  /** Whether national numbers may begin with a 0 that is no prefix. */
  readonly hasZeroNumbers: boolean
  readonly fixedLine: TypeRule | undefined
  /** Also undefined if mobile and fixed-line numbers look the same. */
  readonly mobile: TypeRule | undefined
  /** In the order of the library, mobile first. */
  readonly otherTypes: readonly TypeRule[]
  /** Undefined if one of them cannot be compiled. */
  readonly formats: readonly FormatRule[] | undefined
}

/** The order of the library; the first match wins. */
const OTHER_TYPES = [
  'MOBILE', 'PREMIUM_RATE', 'TOLL_FREE', 'SHARED_COST', 'VOIP', 'PERSONAL_NUMBER', 'PAGER', 'UAN',
  'VOICEMAIL',
] as const satisfies readonly AssignedType[]

const BITS = 32

/** Compiles the plan of a country, or of a calling code without a country. */
export function compilePlan (countryOrCallingCode: string): Plan {
  const plan = libraryPlan(countryOrCallingCode)
  const lengths = plan.possibleLengths()
  const prefix = plan.nationalPrefixForParsing()
  return {
    country: isKnownCountry(countryOrCallingCode) ? countryOrCallingCode : undefined,
    callingCode: plan.callingCode(),
    pattern: fullPattern(plan.nationalNumberPattern()),
    lengths: lengthsOf(lengths),
    maxLength: Math.max(...lengths),
    leadingDigits: optionalStartPattern(plan.leadingDigits()),
    nationalPrefix: prefix
      ? {
          pattern: startPattern(prefix),
          transform: plan.nationalPrefixTransformRule() || undefined,
        }
      : undefined,
    internationalPrefix: optionalStartPattern(plan.IDDPrefix()),
    hasZeroNumbers: /(?:^|[|(:])(?:0|\[[^\]]*0)/.test(plan.nationalNumberPattern()),
    fixedLine: typeRule(plan, 'FIXED_LINE'),
    mobile: typeRule(plan, 'MOBILE'),
    otherTypes: OTHER_TYPES.map(type => typeRule(plan, type)).filter(rule => rule !== undefined),
    formats: compileFormats(plan.formats(), `+${plan.callingCode()} `),
  }
}

/** Whether a number of digits is possible. */
export function hasLength (lengths: Lengths, digits: number): boolean {
  return digits < BITS && (lengths >>> digits & 1) === 1
}

/**
 * The type of a national number by the rules of `getNumberType` of the library; undefined if its
 * range is not assigned.
 */
export function assignedTypeOf (plan: Plan, national: string): AssignedType | undefined {
  if (!plan.pattern.test(national)) return undefined
  const { fixedLine, mobile } = plan
  if (fixedLine !== undefined && matches(fixedLine, national)) {
    const either = mobile === undefined || matches(mobile, national)
    return either ? 'FIXED_LINE_OR_MOBILE' : 'FIXED_LINE'
  }
  for (const rule of plan.otherTypes) {
    if (matches(rule, national)) return rule.type
  }
  return undefined
}

function matches ({ lengths, pattern }: TypeRule, national: string): boolean {
  return hasLength(lengths, national.length) && pattern.test(national)
}

function typeRule (plan: LibraryPlan, type: AssignedType): TypeRule | undefined {
  const definition = plan.type(type)
  if (definition === undefined || !definition.pattern()) return undefined
  const lengths = lengthsOf(definition.possibleLengths())
  return { type, lengths, pattern: fullPattern(definition.pattern()) }
}

function lengthsOf (digits: readonly number[]): Lengths {
  return digits.reduce((lengths, length) => lengths | 1 << length, 0)
}

function fullPattern (pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`)
}

function startPattern (pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})`)
}

function optionalStartPattern (pattern: string | 0 | undefined): RegExp | undefined {
  return pattern ? startPattern(pattern) : undefined
}
