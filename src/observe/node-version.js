// Plain JavaScript, so that the Node it refuses can read it.

/**
 * The line that refuses an older Node, or `undefined` when this one will do. Every entry point asks it first:
 * an older Node would stop at the first type annotation, with an error that helps nobody.
 *
 * @param {string} version as in process.version, `v20.20.2`
 * @returns {string | undefined}
 */
export function refuseNodeVersion(version) {
  const major = Number(version.replace(/^v/, "").split(".")[0]);
  return major >= 24
    ? undefined
    : `belfry needs Node 24 or newer, and this is ${version}: run it through npm (npm run …) or with node_modules/.bin/node`;
}
