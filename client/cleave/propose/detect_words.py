"""Words in column names that say something sensitive: words in English, German, French and Spanish, some in other
languages.

They give a reason, and the kind that serves a column best; nothing becomes plain for want of a word here (see
`harmless`). `date_of_birth`, `DateOfBirth`, `dateofbirth` and `Date de naissance` all meet a word: every run of
neighbouring parts of a name is looked up. Parts are never searched inside (`page` is no `age`).
"""

from __future__ import annotations

from dataclasses import dataclass

from cleave.propose.names import parts, words
from cleave.table.schema import Kind


@dataclass(frozen=True, slots=True)
class Topic:
    """`number` and `text`: what a column of that meaning should be, by its type."""

    label: str
    number: Kind
    text: Kind
    words: frozenset[str]


def _topic(label: str, listed: str, number: Kind = Kind.SEALED, text: Kind = Kind.SEALED) -> Topic:
    return Topic(label, number, text, words(listed))


SECRET = _topic(
    "a password or secret",
    "password passwd pwd secret token apikey privatekey pin passwort kennwort motdepasse contrasena clave cvv cvc",
    Kind.LOCAL,
    Kind.LOCAL,
)
ADDRESS = _topic(
    "an address",
    "address addr street housenumber houseno postcode postalcode zip zipcode plz postleitzahl strasse"
    " hausnummer anschrift adresse wohnort rue codepostal direccion calle codigopostal domicilio",
)
MONEY = _topic(
    "an amount of money",
    "salary income wage wages pay payment amount bill billing price cost costs charge charges fee fees"
    " balance credit debit debt loan revenue turnover sales tax bonus invoice total paid premium claim"
    " expense expenses budget gehalt lohn einkommen betrag preis kosten umsatz saldo rechnung"
    " rechnungsbetrag gebuhr gebuehr schulden beitrag salaire revenu montant prix cout facture solde salario"
    " sueldo ingreso ingresos importe precio coste costo factura deudas dívida schulden uitkering zuzahlung"
    " remboursement",
    Kind.ENCRYPTED,
)
# The first that fits decides: a birth year is no calendar year, an account balance is money.
TOPICS = (
    _topic(
        "an e-mail address",
        "email mail emailaddress emailadresse mailadresse courriel correo correoelectronico epost",
    ),
    _topic(
        "a phone number",
        "phone telephone tel mobile mobilephone cell cellphone fax msisdn phonenumber phoneno telefon"
        " telefonnummer handy handynummer mobil rufnummer portable telefono movil celular",
    ),
    _topic(
        "a date of birth",
        "dob birth birthdate birthday born birthyear dateofbirth geburt geburtsdatum geburtstag geburtsjahr"
        " gebdat naissance datenaissance nacimiento fechanacimiento birthplace geburtsort lugardenacimiento"
        " geboorteplaats مكانالميلاد",
        Kind.ENCRYPTED,
    ),
    MONEY,
    _topic(
        "a bank account",
        "iban bic swift account accountnumber accountno bankaccount sortcode routingnumber konto kontonummer"
        " bankverbindung compte cuenta",
    ),
    _topic(
        "a payment card",
        "card cardnumber cardno creditcard ccnumber pan kreditkarte kartennummer cartebancaire tarjeta",
    ),
    _topic(
        "an official number of a person",
        "ssn socialsecurity nationalid nin nino nhs nhsnumber passport taxid tin steuerid steuernummer svnummer"
        " versichertennummer sozialversicherungsnummer ausweis ausweisnummer personalausweis reisepass insee nir"
        " securitesociale passeport dni nie nif curp rfc cpf bsn pesel aadhaar driverslicense driverlicense"
        " drivinglicence numberplate licenseplate kennzeichen pasaporte",
    ),
    _topic(
        "a name of a person",
        "firstname lastname fullname surname forename givenname familyname middlename maidenname patientname"
        " customername clientname employeename username login nickname vorname nachname familienname kundenname"
        " patientenname benutzername prenom nomdefamille apellido apellidos nombre",
    ),
    ADDRESS,
    _topic(
        "a place on the map",
        "lat latitude lon lng long longitude gps geo coordinates coordinate breitengrad langengrad laengengrad",
        Kind.ENCRYPTED,
    ),
    _topic(
        "a device or connection",
        "ip ipaddress ipadresse mac macaddress deviceid imei cookie session sessionid useragent",
    ),
    _topic(
        "a special category of personal data (GDPR Art. 9) or close to one",
        "diagnosis diagnoses diagnose disease condition illness icd icd10 symptom symptoms medication drug"
        " treatment therapy prescription allergy allergies disability hiv religion ethnicity ethnic race"
        " nationality orientation party union gender sex maritalstatus married conviction krankheit medikament"
        " behandlung befund geschlecht familienstand gewerkschaft staatsangehorigkeit staatsangehoerigkeit"
        " maladie traitement sexe genre diagnostic diagnostico enfermedad tratamiento sexo genero"
        " mental mentalhealth caste ethnicbackground immigrationstatus church substanceuse covid covidtest bloodgroup"
        " hauptdiagnose migrationshintergrund nationalité groupesanguin handicap antécédents casierjudiciaire grossesse"
        " antecedentes penales cáncer orientaciónsexual afiliaciónsindical idiomamaterno cittadinanza statocivile"
        " disabilità precedentipenali raça religião gestante deficiência nationaliteit burgerlijkestaat hoofddiagnose"
        " zwanger narodowość karalność ciąża nationalitet gravid brottsregister blodgrupp medenihali gebelik engelli"
        " sabıka диагноз беременность инвалидность судимость группакрови семейноеположение 宗教信仰 怀孕 犯罪记录 血型"
        " 国籍 出身地 診断名 犯罪歴 الجنسية الديانة التشخيص سوابقجنائية الحالةالاجتماعية जाति मातृभाषा",
        Kind.ENCRYPTED,
    ),
    _topic(
        "a measure of a person",
        "age weight height bmi bloodpressure systolic diastolic pulse heartrate temperature temp glucose"
        " cholesterol hemoglobin haemoglobin hba1c creatinine oxygen spo2 dose dosage score insulin blood smoker"
        " smoking pregnant pregnancies insured insurance lengthofstay los alter gewicht groesse grosse blutdruck"
        " puls raucher schwanger versichert poids taille edad peso altura fumador bodyfat fumatore rökare sigara مدخن"
        " धूम्रपान esitodeltest resultadodoexame wyniktestu escolaridade eğitimdurumu",
        Kind.ENCRYPTED,
    ),
    _topic(
        "a date of care",
        "admission admitted discharge discharged visit death died deceased aufnahme aufnahmedatum entlassung"
        " entlassungsdatum todesdatum deces ingresado alta",
        Kind.ENCRYPTED,
    ),
)

FREE_TEXT = words(
    "note notes comment comments remark remarks description freetext memo message text body feedback review"
    " anamnesis history bemerkung bemerkungen notiz notizen kommentar beschreibung freitext commentaire"
    " commentaires remarque remarques nota notas comentario comentarios observaciones observations"
    " anmärkning примечание 备注"
)
IDENTIFIER = words(
    "id ids uid uuid guid identifier key mrn no nr num number nummer numero reference ref kundennummer"
    " patientennummer personalnummer matrikelnummer aktenzeichen fallnummer index rownum"
)
PERSON = words(
    "patient patients customer client employee user member person subject student applicant contact doctor"
    " nurse owner first last full middle given family kunde patienten mitarbeiter arzt cliente empleado paciente"
)
NAME = words("name names nom")


def names_a_person(name: str) -> bool:
    """`name`, `last_name`, `patient name`, but not `ward_name` or `product name`."""
    found = set(parts(name))
    return bool(found & NAME) and found <= NAME | PERSON
