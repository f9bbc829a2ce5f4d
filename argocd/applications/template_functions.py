"""The functions of an ApplicationSet's Go templates, with how many arguments each takes."""

_BY_ARGUMENTS: dict[tuple[int, int | None], str] = {
    (0, 0): """
        hello now uuidv4
    """,
    (0, None): """
        add addf all any cat coalesce concat dict dig keys list quote seq slugify squote tuple
    """,
    (1, 1): """
        add1 add1f adler32sum ago atoi b32dec b32enc b64dec b64enc base bcrypt camelcase ceil clean compact
        deepCopy dir duration durationRound empty ext fail first float64 floor fromJson fromYaml fromYamlArray
        genPrivateKey htmlDate initial initials int int64 isAbs kebabcase kindOf last lower mustCompact
        mustDeepCopy mustFirst mustFromJson mustInitial mustLast mustRest mustReverse mustToJson
        mustToPrettyJson mustToRawJson mustUniq normalize nospace osBase osClean osDir osExt osIsAbs randAlpha
        randAlphaNum randAscii randBytes randNumeric regexQuoteMeta rest reverse semver sha1sum sha256sum
        sha512sum shuffle snakecase sortAlpha swapcase title toDecimal toJson toPrettyJson toRawJson toString
        toStrings toYaml trim typeOf uniq unixEpoch until untitle upper urlJoin urlParse values
    """,
    (1, None): """
        biggest default divf max maxf merge mergeOverwrite min minf mul mulf mustMerge mustMergeOverwrite
        mustSlice mustWithout omit pick pluck slice subf without
    """,
    (2, 2): """
        abbrev append buildCustomCert chunk contains date dateModify date_modify decryptAES deepEqual div
        encryptAES genCA get has hasKey hasPrefix hasSuffix htmlDateInZone htpasswd indent join kindIs mod
        mustAppend mustChunk mustDateModify mustHas mustPrepend mustPush mustRegexFind mustRegexMatch mustToDate
        must_date_modify nindent prepend push randInt regexFind regexMatch repeat semverCompare split splitList
        sub toDate trimAll trimPrefix trimSuffix trimall trunc typeIs typeIsLike unset wrap
    """,
    (2, None): """
        round
    """,
    (3, 3): """
        abbrevboth dateInZone date_in_zone genCAWithKey mustRegexFindAll mustRegexReplaceAll
        mustRegexReplaceAllLiteral mustRegexSplit plural regexFindAll regexReplaceAll regexReplaceAllLiteral
        regexSplit replace set splitn substr ternary untilStep wrapWith
    """,
    (4, 4): """
        genSelfSignedCert
    """,
    (5, 5): """
        derivePassword genSelfSignedCertWithKey genSignedCert
    """,
    (6, 6): """
        genSignedCertWithKey
    """,
}
"""At least and at most; None where there is no end."""

FUNCTIONS = {name: taken for taken, names in _BY_ARGUMENTS.items() for name in names.split()}
"""Of sprig, less three that would tell of the controller's surroundings, and five of Argo CD's own."""
