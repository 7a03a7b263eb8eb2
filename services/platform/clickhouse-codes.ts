/**
 * Codes by which ClickHouse says that a statement, or the data sent with it, is wrong: the same
 * again is answered the same, whatever becomes of the store. By the names of its own list of errors
 * (`system.errors`). Codes of features that nothing here uses are left out.
 *
 * Some are missing on purpose: unknown tables and databases (60, 81) are made by provisioning; what
 * ends too soon or claims an impossible size (32, 33, 128, 131) is a damaged file of the store, as
 * statements are sent whole and as text.
 */
const WRONG_STATEMENT = {
  UNSUPPORTED_METHOD: 1,
  UNSUPPORTED_PARAMETER: 2,
  CANNOT_PARSE_TEXT: 6,
  INCORRECT_NUMBER_OF_COLUMNS: 7,
  THERE_IS_NO_COLUMN: 8,
  NOT_FOUND_COLUMN_IN_BLOCK: 10,
  PARAMETER_OUT_OF_BOUND: 12,
  DUPLICATE_COLUMN: 15,
  NO_SUCH_COLUMN_IN_TABLE: 16,
  SIZE_OF_FIXED_STRING_DOESNT_MATCH: 19,
  NUMBER_OF_COLUMNS_DOESNT_MATCH: 20,
  CANNOT_PARSE_ESCAPE_SEQUENCE: 25,
  CANNOT_PARSE_QUOTED_STRING: 26,
  CANNOT_PARSE_INPUT_ASSERTION_FAILED: 27,
  TOO_MANY_ARGUMENTS_FOR_FUNCTION: 34,
  TOO_FEW_ARGUMENTS_FOR_FUNCTION: 35,
  BAD_ARGUMENTS: 36,
  CANNOT_PARSE_DATE: 38,
  CANNOT_PARSE_DATETIME: 41,
  NUMBER_OF_ARGUMENTS_DOESNT_MATCH: 42,
  ILLEGAL_TYPE_OF_ARGUMENT: 43,
  ILLEGAL_COLUMN: 44,
  UNKNOWN_FUNCTION: 46,
  UNKNOWN_IDENTIFIER: 47,
  NOT_IMPLEMENTED: 48,
  UNKNOWN_TYPE: 50,
  EMPTY_LIST_OF_COLUMNS_QUERIED: 51,
  COLUMN_QUERIED_MORE_THAN_ONCE: 52,
  TYPE_MISMATCH: 53,
  TABLE_ALREADY_EXISTS: 57,
  ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER: 59,
  SYNTAX_ERROR: 62,
  UNKNOWN_AGGREGATE_FUNCTION: 63,
  ARGUMENT_OUT_OF_BOUND: 69,
  CANNOT_CONVERT_TYPE: 70,
  CANNOT_PARSE_NUMBER: 72,
  UNKNOWN_FORMAT: 73,
  UNKNOWN_TYPE_OF_QUERY: 78,
  INCORRECT_QUERY: 80,
  DATABASE_ALREADY_EXISTS: 82,
  FORMAT_IS_NOT_SUITABLE_FOR_INPUT: 85,
  NO_DATA_TO_INSERT: 108,
  UNKNOWN_SETTING: 115,
  THERE_IS_NO_DEFAULT_VALUE: 116,
  INCORRECT_DATA: 117,
  CANNOT_READ_ARRAY_FROM_TEXT: 130,
  TOO_DEEP_AST: 167,
  TOO_BIG_AST: 168,
  ILLEGAL_AGGREGATION: 184,
  AMBIGUOUS_IDENTIFIER: 207,
  EMPTY_QUERY: 211,
  NOT_AN_AGGREGATE: 215,
  QUERY_IS_TOO_LARGE: 229,
  VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE: 321,
  CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN: 349,
  AMBIGUOUS_COLUMN_NAME: 352,
  CANNOT_PARSE_UUID: 376,
  NO_COMMON_TYPE: 386,
  DECIMAL_OVERFLOW: 407,
  INVALID_LIMIT_EXPRESSION: 440,
  UNKNOWN_QUERY_PARAMETER: 456,
  BAD_QUERY_PARAMETER: 457,
  CANNOT_PARSE_BOOL: 467,
  VIOLATED_CONSTRAINT: 469,
  INVALID_SETTING_VALUE: 471,
  INVALID_FORMAT_INSERT_QUERY_WITH_DATA: 578,
  UNEXPECTED_DATA_AFTER_PARSED_VALUE: 632,
  UNKNOWN_ELEMENT_OF_ENUM: 691,
} as const

const WRONG_CODES: ReadonlySet<number> = new Set(Object.values(WRONG_STATEMENT))

/**
 * Whether a code says that the store is broken, full, overloaded or not ready. All do that are not
 * known to blame the statement, one of a version to come included: to wait for somebody to mend the
 * store loses nothing, while a statement that is given up for a fault of the store is lost.
 */
export function isStoreFailure (code: string): boolean {
  return /^\d+$/.test(code) && !WRONG_CODES.has(Number(code))
}
