/** SQL without the lines that are comments: in a bundle nobody reads them. */
export function withoutSqlComments(sql) {
  return sql.replaceAll(/^\s*--.*\n/gm, '')
}
